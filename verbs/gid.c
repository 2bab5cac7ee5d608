/* gid.c - which entry of a port's GID table to use.
 *
 * On RoCE the GID decides the protocol (v1 or v2) and the source address, and index 0 is as a rule
 * the wrong one: a link-local address or RoCE v1, which routers do not pass on. So every valid
 * entry is looked at, and one is taken that is RoCE v2, a routable address, and of an interface
 * that is up. */
#include "verbs/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

const char *sfab_vb_gid_text(const union ibv_gid *gid, char *buf, size_t cap)
{
    if (inet_ntop(AF_INET6, gid->raw, buf, (socklen_t)cap) == NULL)
        snprintf(buf, cap, "?");
    return buf;
}

const char *sfab_vb_gid_type_text(uint32_t gid_type)
{
    switch (gid_type) {
    case IBV_GID_TYPE_IB:
        return "InfiniBand";
    case IBV_GID_TYPE_ROCE_V1:
        return "RoCE v1";
    case IBV_GID_TYPE_ROCE_V2:
        return "RoCE v2";
    default:
        return "unknown type";
    }
}

static struct in6_addr address_of(const union ibv_gid *gid)
{
    struct in6_addr address;

    memcpy(&address, gid->raw, sizeof address);
    return address;
}

bool sfab_vb_gid_is_v4(const union ibv_gid *gid)
{
    struct in6_addr address = address_of(gid);

    return IN6_IS_ADDR_V4MAPPED(&address);
}

bool sfab_vb_gid_is_loopback(const union ibv_gid *gid)
{
    struct in6_addr address = address_of(gid);

    return (sfab_vb_gid_is_v4(gid) && gid->raw[12] == 127) || IN6_IS_ADDR_LOOPBACK(&address);
}

static bool is_link_local(const union ibv_gid *gid)
{
    struct in6_addr address = address_of(gid);

    return IN6_IS_ADDR_LINKLOCAL(&address) || IN6_IS_ADDR_UNSPECIFIED(&address) ||
           IN6_IS_ADDR_MULTICAST(&address);
}

/* Every valid entry of the device, all ports; *count of them. NULL with errno set. */
static struct ibv_gid_entry *read_table(struct ibv_context *ctx, size_t *count)
{
    struct ibv_device_attr attr;
    size_t cap = 0;
    int rc = ibv_query_device(ctx, &attr);

    if (rc != 0) {
        errno = rc;
        return NULL;
    }
    for (unsigned port = 1; port <= attr.phys_port_cnt; port++) {
        struct ibv_port_attr port_attr;

        if (ibv_query_port(ctx, (uint8_t)port, &port_attr) == 0 && port_attr.gid_tbl_len > 0)
            cap += (size_t)port_attr.gid_tbl_len;
    }

    struct ibv_gid_entry *table = calloc(cap > 0 ? cap : 1, sizeof *table);
    if (table == NULL)
        return NULL;

    ssize_t n = ibv_query_gid_table(ctx, table, cap, 0);
    if (n < 0) {
        free(table);
        errno = (int)-n;
        return NULL;
    }
    *count = (size_t)n;
    return table;
}

static bool interface_is_up(const char *name)
{
    struct ifreq request = {0};
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);

    bool up = ioctl(fd, SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_UP) != 0;

    close(fd);
    return up;
}

static const char *netdev_of(const struct ibv_gid_entry *entry, char name[IF_NAMESIZE])
{
    if (entry->ndev_ifindex == 0 || if_indextoname(entry->ndev_ifindex, name) == NULL)
        name[0] = '\0';
    return name;
}

const char *sfab_vb_gid_list(struct ibv_context *ctx, unsigned port, char *buf, size_t cap)
{
    size_t count = 0, used = 0;
    struct ibv_gid_entry *table = read_table(ctx, &count);

    snprintf(buf, cap, "none");
    for (size_t i = 0; i < count && used + 1 < cap; i++) {
        char gid[INET6_ADDRSTRLEN], netdev[IF_NAMESIZE];

        if (table[i].port_num != port)
            continue;
        netdev_of(&table[i], netdev);

        int n = snprintf(buf + used, cap - used, "%s%u (%s, %s%s%s)", used > 0 ? ", " : "",
                         table[i].gid_index, sfab_vb_gid_text(&table[i].gid, gid, sizeof gid),
                         sfab_vb_gid_type_text(table[i].gid_type), netdev[0] != '\0' ? ", " : "",
                         netdev);
        used += n > 0 ? (size_t)n : 0;
    }
    free(table);
    return buf;
}

/* How good an entry is: the higher the better, 0 is not to be used unasked. */
static int score_of(const struct ibv_gid_entry *entry, uint8_t link_layer)
{
    char netdev[IF_NAMESIZE];

    if (link_layer == IBV_LINK_LAYER_INFINIBAND)
        return entry->gid_index == 0 ? 1 : 0;
    if (entry->gid_type != IBV_GID_TYPE_ROCE_V2 || is_link_local(&entry->gid))
        return 0;
    if (netdev_of(entry, netdev)[0] == '\0' || !interface_is_up(netdev))
        return 0;
    if (sfab_vb_gid_is_loopback(&entry->gid))
        return 1;
    return sfab_vb_gid_is_v4(&entry->gid) ? 3 : 2;
}

static void take(struct sfab_vb_port *port, const struct ibv_gid_entry *entry)
{
    port->gid = entry->gid;
    port->gid_index = (uint8_t)entry->gid_index;
    port->gid_type = entry->gid_type;
    netdev_of(entry, port->netdev);
}

static int none_found(struct ibv_context *ctx, const struct sfab_config *config,
                      const struct sfab_vb_port *port, struct sfab_err *err)
{
    char list[512];

    sfab_vb_gid_list(ctx, port->port, list, sizeof list);
    if (config->verbs_gid_index >= 0)
        return sfab_fail(err, SFAB_ERR_CONFIG,
                         "SFAB_VERBS_GID_INDEX=%lld: %s port %u has no GID of that index that can "
                         "be used; it has %s",
                         (long long)config->verbs_gid_index, port->device, port->port, list);
    return sfab_fail(err, -ENODEV,
                     "%s port %u has no RoCE v2 GID with a routable address of an interface that "
                     "is up (it has %s): give the interface an IP address and bring it up, or name "
                     "an entry with SFAB_VERBS_GID_INDEX",
                     port->device, port->port, list);
}

int sfab_vb_gid_choose(struct ibv_context *ctx, const struct sfab_config *config,
                       struct sfab_vb_port *port, struct sfab_err *err)
{
    size_t count = 0;
    int best = 0;
    struct ibv_gid_entry *table = read_table(ctx, &count);

    if (table == NULL)
        return sfab_fail(err, SFAB_ERR_PROVIDER, "cannot read the GID table of %s: %s",
                         port->device, sfab_errno_text(errno));
    for (size_t i = 0; i < count; i++) {
        const struct ibv_gid_entry *entry = &table[i];
        int score;

        if (entry->port_num != port->port || entry->gid_index > UINT8_MAX)
            continue; /* a queue pair's attributes have 8 bits for the index */
        if (config->verbs_gid_index >= 0)
            score = entry->gid_index == config->verbs_gid_index ? 1 : 0;
        else
            score = score_of(entry, port->link_layer);
        if (score > best) {
            best = score;
            take(port, entry);
        }
    }
    free(table);
    return best > 0 ? 0 : none_found(ctx, config, port, err);
}
