/* probe.c - what `sfab info` says of RDMA on this machine: every device and port, whether it would
 * be used, why, and what to do about it. */
#include "verbs/internal.h"

#include <stdio.h>

struct probe {
    sfab_probe_visit visit;
    void *arg;
};

static const char *atomics_text(enum ibv_atomic_cap cap)
{
    switch (cap) {
    case IBV_ATOMIC_NONE:
        return "no atomics";
    case IBV_ATOMIC_HCA:
        return "atomics atomic against this device's own only (IBV_ATOMIC_HCA)";
    case IBV_ATOMIC_GLOB:
        return "atomics atomic against CPUs too (IBV_ATOMIC_GLOB)";
    default:
        return "atomics of an unknown kind";
    }
}

static const char *memlock_text(char *buf, size_t cap)
{
    uint64_t limit = sfab_vb_memlock_limit();

    if (limit == UINT64_MAX)
        snprintf(buf, cap, "locked memory unlimited");
    else
        snprintf(buf, cap, "locked memory limited to %llu KiB (ulimit -l)%s",
                 (unsigned long long)limit / 1024,
                 limit < UINT64_C(1) << 26 ? ": likely too little, raise it to \"unlimited\"" : "");
    return buf;
}

static void tell_usable(const struct probe *probe, struct ibv_context *ctx, const char *label,
                        const struct sfab_vb_port *port)
{
    char text[1536], gid[64], list[640], memlock[160];

    snprintf(text, sizeof text,
             "%s, %llu.%llu Gb/s, GID %u (%s, %s%s%s) chosen out of: %s; MTU %u; writes to a peer "
             "ordered (relaxed ordering is never asked for); %s; up to %d queue pairs, %d "
             "completion entries; %s%s",
             port->link_layer == IBV_LINK_LAYER_ETHERNET ? "RoCE" : "InfiniBand",
             (unsigned long long)port->rate_mbps / 1000,
             (unsigned long long)port->rate_mbps % 1000 / 100, port->gid_index,
             sfab_vb_gid_text(&port->gid, gid, sizeof gid), sfab_vb_gid_type_text(port->gid_type),
             port->netdev[0] != '\0' ? ", " : "", port->netdev,
             sfab_vb_gid_list(ctx, port->port, list, sizeof list), sfab_vb_mtu_bytes(port->mtu),
             atomics_text(port->attr.atomic_cap), port->attr.max_qp, port->attr.max_cqe,
             memlock_text(memlock, sizeof memlock),
             port->software ? "; a software device: packets are made by this host's CPUs" : "");
    probe->visit("verbs", label, 1, text, probe->arg);
}

static void tell_port(struct ibv_context *ctx, const char *device, unsigned number,
                      const struct sfab_vb_port *port, const struct sfab_err *refusal, void *arg)
{
    const struct probe *probe = arg;
    char label[IBV_SYSFS_NAME_MAX + 8];

    if (number > 0)
        snprintf(label, sizeof label, "%s:%u", device, number);
    else
        snprintf(label, sizeof label, "%s", device);
    if (refusal->code == 0)
        tell_usable(probe, ctx, label, port);
    else
        probe->visit("verbs", label, 0, refusal->text, probe->arg);
}

void sfab_vb_probe(const struct sfab_config *config, sfab_probe_visit visit, void *arg)
{
    struct probe probe = {.visit = visit, .arg = arg};
    struct sfab_err err = {0};

    if (sfab_vb_each_port(config, tell_port, &probe, &err) != 0)
        visit("verbs", "-", 0, err.text, arg);
}
