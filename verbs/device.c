/* device.c - which RDMA device and port to use, by looking at what is there.
 *
 * A port is usable when it is active, speaks InfiniBand or RoCE and has a fitting GID (gid.c); of
 * those, hardware comes before software devices and the faster before the slower. Everything can be
 * overridden by configuration, and what is named there but does not exist is answered with what
 * does. */
#include "verbs/internal.h"

#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

unsigned sfab_vb_mtu_bytes(enum ibv_mtu mtu)
{
    return 128u << (unsigned)mtu;
}

/* Devices that are made of software have no parent on a bus. */
static bool is_software(const struct ibv_device *device)
{
    char *path = realpath(device->ibdev_path, NULL);
    bool software = path != NULL && strncmp(path, "/sys/devices/virtual/", 21) == 0;

    free(path);
    return software;
}

/* Million bits a second, from the codes of the InfiniBand specification (PortInfo). */
static uint64_t rate_mbps(const struct ibv_port_attr *attr)
{
    static const struct {
        uint8_t code;
        uint64_t mbps;
    } speeds[] = {{1, 2500},   {2, 5000},   {4, 10000},  {8, 10000},
                  {16, 14000}, {32, 25000}, {64, 50000}, {128, 100000}};
    static const struct {
        uint8_t code;
        uint64_t lanes;
    } widths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
    uint64_t mbps = 0, lanes = 0;

    for (size_t i = 0; i < sizeof speeds / sizeof speeds[0]; i++)
        if (speeds[i].code == attr->active_speed)
            mbps = speeds[i].mbps;
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
        if (widths[i].code == attr->active_width)
            lanes = widths[i].lanes;
    return mbps * lanes;
}

static int choose_mtu(const struct sfab_config *config, const struct ibv_port_attr *attr,
                      struct sfab_vb_port *port, struct sfab_err *err)
{
    unsigned active = sfab_vb_mtu_bytes(attr->active_mtu);

    port->mtu = attr->active_mtu;
    if (config->verbs_mtu == 0)
        return 0;
    for (unsigned mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++) {
        if (sfab_vb_mtu_bytes((enum ibv_mtu)mtu) != config->verbs_mtu)
            continue;
        if (config->verbs_mtu > active)
            return sfab_fail(err, SFAB_ERR_CONFIG,
                             "SFAB_VERBS_MTU=%lld: %s port %u carries at most %u now (raise the "
                             "MTU of its interface, or name a smaller one)",
                             (long long)config->verbs_mtu, port->device, port->port, active);
        port->mtu = (enum ibv_mtu)mtu;
        return 0;
    }
    return sfab_fail(err, SFAB_ERR_CONFIG,
                     "SFAB_VERBS_MTU=%lld: an RDMA MTU is 256, 512, 1024, 2048 or 4096",
                     (long long)config->verbs_mtu);
}

static int judge_link(const struct ibv_port_attr *attr, struct sfab_vb_port *port,
                      struct sfab_err *err)
{
    if (attr->state != IBV_PORT_ACTIVE)
        return sfab_fail(
            err, -ENODEV, "%s port %u is %s, not active: connect it or bring its interface up%s",
            port->device, port->port, ibv_port_state_str(attr->state),
            attr->link_layer == IBV_LINK_LAYER_INFINIBAND ? ", and see that a subnet manager runs"
                                                          : "");
    if (attr->link_layer == IBV_LINK_LAYER_ETHERNET || attr->lid != 0) {
        port->lid = attr->lid;
        port->link_layer = attr->link_layer;
        if (port->link_layer == IBV_LINK_LAYER_UNSPECIFIED) /* means InfiniBand, says the manual */
            port->link_layer = IBV_LINK_LAYER_INFINIBAND;
        return 0;
    }
    return sfab_fail(err, -ENODEV, "%s port %u has no LID yet: see that a subnet manager runs",
                     port->device, port->port);
}

static int judge_port(struct ibv_context *ctx, const struct sfab_config *config,
                      struct sfab_vb_port *port, struct sfab_err *err)
{
    struct ibv_port_attr attr = {0};
    int rc = ibv_query_port(ctx, port->port, &attr);

    if (rc != 0)
        return sfab_fail(err, SFAB_ERR_PROVIDER, "cannot query port %u of %s: %s", port->port,
                         port->device, sfab_errno_text(rc));
    if (ctx->device->transport_type != IBV_TRANSPORT_IB)
        return sfab_fail(err, -ENODEV,
                         "%s is an iWARP or vendor-specific device: a completed write there does "
                         "not mean that it has arrived, which syncfab builds on; use an InfiniBand "
                         "or RoCE device, or another transport",
                         port->device);
    if (port->attr.max_qp_rd_atom < 1 || port->attr.max_qp_init_rd_atom < 1)
        return sfab_fail(err, -ENODEV, "%s cannot read remote memory", port->device);
    rc = judge_link(&attr, port, err);
    if (rc == 0)
        rc = choose_mtu(config, &attr, port, err);
    if (rc == 0)
        rc = sfab_vb_gid_choose(ctx, config, port, err);
    port->max_msg_bytes = attr.max_msg_sz;
    port->rate_mbps = rate_mbps(&attr);
    return rc;
}

static void visit_port(struct ibv_context *ctx, const struct sfab_config *config, unsigned number,
                       const struct ibv_device_attr *attr, sfab_vb_port_visit visit, void *arg)
{
    struct sfab_err refusal = {0};
    struct sfab_vb_port port = {.port = (uint8_t)number, .attr = *attr};

    snprintf(port.device, sizeof port.device, "%s", ibv_get_device_name(ctx->device));
    port.software = is_software(ctx->device);
    port.node_guid = be64toh(attr->node_guid);
    judge_port(ctx, config, &port, &refusal);
    visit(ctx, port.device, number, &port, &refusal, arg);
}

/* libibverbs answers ENOENT also where the device file is there but not for us. */
static void explain_unopened(const struct ibv_device *device, int errnum, struct sfab_err *refusal)
{
    char path[IBV_SYSFS_NAME_MAX + 32];

    snprintf(path, sizeof path, "/dev/infiniband/%s", device->dev_name);
    if (access(path, R_OK | W_OK) != 0 && errno == EACCES)
        sfab_fail(refusal, -ENODEV, "%s cannot be opened: this user may not read and write %s",
                  device->name, path);
    else
        sfab_fail(refusal, -ENODEV, "%s cannot be opened: %s (looked for %s)", device->name,
                  sfab_errno_text(errnum), path);
}

static void visit_device(struct ibv_device *device, const struct sfab_config *config,
                         sfab_vb_port_visit visit, void *arg)
{
    const char *name = ibv_get_device_name(device);
    struct ibv_context *ctx = ibv_open_device(device);
    struct ibv_device_attr attr;
    struct sfab_err refusal = {0};
    int rc;

    if (ctx == NULL) {
        explain_unopened(device, errno, &refusal);
        visit(NULL, name, 0, NULL, &refusal, arg);
        return;
    }
    rc = ibv_query_device(ctx, &attr);
    if (rc != 0) {
        sfab_fail(&refusal, SFAB_ERR_PROVIDER, "%s cannot be queried: %s", name,
                  sfab_errno_text(rc));
        visit(ctx, name, 0, NULL, &refusal, arg);
    } else if (config->verbs_port > attr.phys_port_cnt) {
        sfab_fail(&refusal, SFAB_ERR_CONFIG, "SFAB_VERBS_PORT=%lld: %s has ports 1 to %u",
                  (long long)config->verbs_port, name, attr.phys_port_cnt);
        visit(ctx, name, 0, NULL, &refusal, arg);
    } else {
        for (unsigned port = 1; port <= attr.phys_port_cnt; port++)
            if (config->verbs_port == 0 || config->verbs_port == port)
                visit_port(ctx, config, port, &attr, visit, arg);
    }
    ibv_close_device(ctx);
}

static int no_such_device(struct ibv_device **list, int count, const char *wanted,
                          struct sfab_err *err)
{
    char names[512] = "none";
    size_t used = 0;

    for (int i = 0; i < count && used + 1 < sizeof names; i++) {
        int n = snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                         ibv_get_device_name(list[i]));
        used += n > 0 ? (size_t)n : 0;
    }
    return sfab_fail(err, SFAB_ERR_CONFIG,
                     "SFAB_VERBS_DEVICE=%s: this host has no such RDMA device; it has %s", wanted,
                     names);
}

int sfab_vb_each_port(const struct sfab_config *config, sfab_vb_port_visit visit, void *arg,
                      struct sfab_err *err)
{
    const char *wanted = config->verbs_device;
    int count = 0, visited = 0, rc = 0;
    struct ibv_device **list = ibv_get_device_list(&count);

    if (list == NULL)
        count = 0;
    for (int i = 0; i < count; i++) {
        if (wanted[0] != '\0' && strcmp(wanted, ibv_get_device_name(list[i])) != 0)
            continue;
        visit_device(list[i], config, visit, arg);
        visited++;
    }
    if (visited == 0 && wanted[0] != '\0')
        rc = no_such_device(list, count, wanted, err);
    else if (visited == 0)
        rc = sfab_fail(err, -ENODEV,
                       "no RDMA device on this host: load the driver of the card and ib_uverbs, or "
                       "make a software device (modprobe rdma_rxe; rdma link add rxe0 type rxe "
                       "netdev eth0)");
    if (list != NULL)
        ibv_free_device_list(list);
    return rc;
}

/* ---- the best one --------------------------------------------------------------------------- */

struct choice {
    struct sfab_vb_port best;
    bool found;
    struct sfab_err refused; /* all sentences of those that were not good enough */
};

static bool better(const struct sfab_vb_port *a, const struct sfab_vb_port *b)
{
    bool a_lo = sfab_vb_gid_is_loopback(&a->gid), b_lo = sfab_vb_gid_is_loopback(&b->gid);

    if (a->software != b->software)
        return b->software;
    if (a_lo != b_lo)
        return b_lo;
    return a->rate_mbps > b->rate_mbps;
}

static void consider(struct ibv_context *ctx, const char *device, unsigned number,
                     const struct sfab_vb_port *port, const struct sfab_err *refusal, void *arg)
{
    struct choice *choice = arg;
    struct sfab_err *refused = &choice->refused;
    size_t used = strlen(refused->text);

    (void)ctx, (void)device, (void)number;
    if (refusal->code == 0) {
        if (!choice->found || better(port, &choice->best))
            choice->best = *port;
        choice->found = true;
        return;
    }
    if (refused->code != SFAB_ERR_CONFIG)
        refused->code = refusal->code;
    snprintf(refused->text + used, sizeof refused->text - used, "%s%s", used > 0 ? "; " : "",
             refusal->text);
}

static struct ibv_context *open_by_name(const char *name)
{
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    struct ibv_context *ctx = NULL;

    for (int i = 0; list != NULL && i < count; i++)
        if (strcmp(name, ibv_get_device_name(list[i])) == 0)
            ctx = ibv_open_device(list[i]);
    if (list != NULL)
        ibv_free_device_list(list);
    return ctx;
}

int sfab_vb_choose(const struct sfab_config *config, struct sfab_vb_port *out,
                   struct ibv_context **ctx, struct sfab_err *err)
{
    struct choice choice = {0};
    int rc = sfab_vb_each_port(config, consider, &choice, err);

    if (rc != 0)
        return rc;
    if (!choice.found)
        return sfab_fail(err, choice.refused.code == SFAB_ERR_CONFIG ? SFAB_ERR_CONFIG : -ENODEV,
                         "no usable RDMA device: %s", choice.refused.text);

    struct ibv_context *opened = open_by_name(choice.best.device);

    if (opened == NULL)
        return sfab_fail(err, -ENODEV, "%s cannot be opened again: %s", choice.best.device,
                         sfab_errno_text(errno));
    *out = choice.best;
    *ctx = opened;
    return 0;
}
