/* qp.c - queue pairs: making them, their memory, and their way RESET, INIT, RTR, RTS. */
#include "verbs/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>

#define HOP_LIMIT    64
#define SQ_DEPTH_MIN 8u
#define PSN_MASK     0xffffffu

static uint32_t floor_power_of_two(uint32_t value)
{
    while ((value & (value - 1)) != 0)
        value &= value - 1;
    return value;
}

static struct ibv_qp *make(struct sfab_vb_tp *tp, uint32_t depth, uint32_t inline_ask,
                           uint32_t *inline_got)
{
    /* Nothing is ever received: one receive entry because some drivers refuse none. */
    struct ibv_qp_init_attr attr = {
        .send_cq = tp->cq,
        .recv_cq = tp->cq,
        .cap = {.max_send_wr = depth,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = inline_ask},
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 0,
    };
    struct ibv_qp *qp = ibv_create_qp(tp->pd, &attr);

    if (qp != NULL && inline_got != NULL)
        *inline_got = attr.cap.max_inline_data;
    return qp;
}

int sfab_vb_qp_measure(struct sfab_vb_tp *tp, struct sfab_err *err)
{
    uint32_t wanted = (uint32_t)tp->env.config->verbs_inline;
    uint32_t depth = (uint32_t)tp->env.config->verbs_sq_depth;
    int errnum = 0;

    if (depth > (uint32_t)tp->port.attr.max_qp_wr)
        depth = (uint32_t)tp->port.attr.max_qp_wr;
    if (depth > tp->cq_room)
        depth = tp->cq_room;
    for (depth = floor_power_of_two(depth); depth >= SQ_DEPTH_MIN; depth /= 2) {
        for (uint32_t ask = wanted;; ask = ask > 8 ? floor_power_of_two(ask - 1) : 0) {
            uint32_t got = 0;
            struct ibv_qp *qp = make(tp, depth, ask, &got);

            if (qp != NULL) {
                ibv_destroy_qp(qp);
                tp->sq_depth = depth;
                tp->inline_ask = ask;
                tp->inline_bytes = ask > 0 ? got : 0;
                return 0;
            }
            errnum = errno;
            if (ask == 0)
                break;
        }
    }
    if (errnum == ENOMEM) {
        int rc = sfab_vb_memlock_check(65536, "a queue pair", err);

        if (rc != 0)
            return rc;
    }
    return sfab_fail(err, SFAB_ERR_PROVIDER,
                     "%s cannot make a queue pair, not even of %u entries: %s", tp->port.device,
                     SQ_DEPTH_MIN, sfab_errno_text(errnum));
}

/* Whole pages of their own: after a fork the child may not have pages that the device uses. */
static int make_rings(struct sfab_vb_ep *ep, struct sfab_err *err)
{
    struct sfab_vb_tp *tp = sfab_vb_owner(ep);
    size_t bytes = sizeof *ep->rings;

    if (tp->staged)
        bytes += (size_t)tp->sq_depth * SFAB_VB_STAGE_BYTES;
    ep->rings_bytes = (bytes + 4095) & ~(size_t)4095;

    void *at =
        mmap(NULL, ep->rings_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return sfab_fail(err, -ENOMEM, "no memory for a connection's buffers (%zu bytes)",
                         ep->rings_bytes);
    ep->rings = at;
    ep->rings_mr = ibv_reg_mr(tp->pd, at, ep->rings_bytes, IBV_ACCESS_LOCAL_WRITE);
    if (ep->rings_mr == NULL) {
        int errnum = errno;
        int rc = sfab_vb_memlock_check(ep->rings_bytes, "a connection", err);

        if (rc != 0)
            return rc;
        return sfab_fail(err, SFAB_ERR_PROVIDER, "%s cannot register a connection's buffers: %s",
                         tp->port.device, sfab_errno_text(errnum));
    }
    ep->rings_lkey = ep->rings_mr->lkey;
    return 0;
}

int sfab_vb_equip(struct sfab_vb_ep *ep, struct sfab_err *err)
{
    struct sfab_vb_tp *tp = sfab_vb_owner(ep);
    uint32_t got = 0, psn;
    int rc;

    if (getrandom(&psn, sizeof psn, 0) != (ssize_t)sizeof psn)
        return sfab_fail(err, SFAB_ERR_PROVIDER, "no random number to start a connection with: %s",
                         sfab_errno_text(errno));
    ep->psn = psn & PSN_MASK;
    rc = make_rings(ep, err);
    if (rc != 0) {
        sfab_vb_strip(ep);
        return rc;
    }
    ep->qp = make(tp, tp->sq_depth, tp->inline_ask, &got);
    if (ep->qp == NULL) {
        int errnum = errno;

        sfab_vb_strip(ep);
        return sfab_fail(err, SFAB_ERR_PROVIDER,
                         "%s cannot make another queue pair beside the %llu it has: %s",
                         tp->port.device,
                         (unsigned long long)atomic_load_explicit(&tp->qps, memory_order_relaxed),
                         sfab_errno_text(errnum));
    }
    atomic_fetch_add_explicit(&tp->qps, 1, memory_order_relaxed);
    if (got < tp->inline_bytes) {
        sfab_vb_strip(ep);
        return sfab_fail(err, SFAB_ERR_PROVIDER,
                         "%s made a queue pair that inlines %u bytes after one that inlined %u",
                         tp->port.device, got, tp->inline_bytes);
    }
    return 0;
}

void sfab_vb_strip(struct sfab_vb_ep *ep)
{
    struct sfab_vb_tp *tp = sfab_vb_owner(ep);

    if (ep->qp != NULL) {
        ibv_destroy_qp(ep->qp);
        atomic_fetch_sub_explicit(&tp->qps, 1, memory_order_relaxed);
    }
    if (ep->rings_mr != NULL)
        ibv_dereg_mr(ep->rings_mr);
    if (ep->rings != NULL)
        munmap(ep->rings, ep->rings_bytes);
    ep->qp = NULL;
    ep->rings_mr = NULL;
    ep->rings = NULL;
}

unsigned sfab_vb_qp_access(const struct sfab_vb_tp *tp)
{
    return IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
           (tp->atomics ? (unsigned)IBV_ACCESS_REMOTE_ATOMIC : 0u);
}

static uint8_t rd_atomic_limit(int device_limit)
{
    return (uint8_t)(device_limit < (int)SFAB_VB_RD_ATOMIC ? device_limit : (int)SFAB_VB_RD_ATOMIC);
}

uint8_t sfab_vb_rd_atomic_in(const struct sfab_vb_tp *tp)
{
    return rd_atomic_limit(tp->port.attr.max_qp_rd_atom);
}

uint8_t sfab_vb_rd_atomic_out(const struct sfab_vb_tp *tp, uint8_t peer_in)
{
    uint8_t own = rd_atomic_limit(tp->port.attr.max_qp_init_rd_atom);

    return own < peer_in ? own : peer_in;
}

void sfab_vb_qp_timers(const struct sfab_vb_tp *tp, struct ibv_qp_attr *attr)
{
    const struct sfab_config *config = tp->env.config;

    attr->timeout = (uint8_t)config->verbs_timeout;
    attr->retry_cnt = (uint8_t)config->verbs_retry;
    attr->rnr_retry = (uint8_t)config->verbs_rnr_retry;
}

/* Whether it is this side's own port that is the trouble. When an interface goes down its routes go first and
 * the port's state a little later: for a failure that might be of that kind it is looked for a moment. */
static bool is_down(const struct sfab_vb_tp *tp, bool no_route)
{
    const struct timespec pause = {.tv_nsec = 5000000};

    for (int i = no_route ? 10 : 0; i >= 0; i--) {
        struct ibv_port_attr attr = {0};

        if (ibv_query_port(tp->ctx, tp->port.port, &attr) == 0 && attr.state != IBV_PORT_ACTIVE)
            return true;
        if (i > 0)
            nanosleep(&pause, NULL);
    }
    return false;
}

static int modify(struct sfab_vb_ep *ep, struct ibv_qp_attr *attr, int mask, const char *state,
                  struct sfab_err *err)
{
    const struct sfab_vb_tp *tp = sfab_vb_owner(ep);
    char name[SFAB_VB_NAME_BYTES];
    int rc = ibv_modify_qp(ep->qp, attr, mask);

    if (rc == 0)
        return 0;
    bool no_route = rc == ETIMEDOUT || rc == EHOSTUNREACH || rc == ENETUNREACH;
    return sfab_fail(err, is_down(tp, no_route) ? -ENETDOWN : SFAB_ERR_PROVIDER,
                     "%s cannot bring the connection to %s into state %s: %s%s", tp->port.device,
                     sfab_vb_peer(ep, name), state, sfab_errno_text(rc),
                     no_route ? " (no way to its address: look at routes and neighbours)" : "");
}

int sfab_vb_qp_init(struct sfab_vb_ep *ep, struct sfab_err *err)
{
    const struct sfab_vb_tp *tp = sfab_vb_owner(ep);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .pkey_index = 0,
                               .port_num = tp->port.port,
                               .qp_access_flags = sfab_vb_qp_access(tp)};

    return modify(ep, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
                  "INIT", err);
}

int sfab_vb_qp_rtr(struct sfab_vb_ep *ep, const struct sfab_vb_conn *peer, struct sfab_err *err)
{
    const struct sfab_vb_port *port = &sfab_vb_owner(ep)->port;
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = peer->mtu < port->mtu ? (enum ibv_mtu)peer->mtu : port->mtu,
        .dest_qp_num = peer->qpn,
        .rq_psn = peer->psn,
        .max_dest_rd_atomic = sfab_vb_rd_atomic_in(sfab_vb_owner(ep)),
        .min_rnr_timer = SFAB_VB_MIN_RNR_TIMER,
        .ah_attr = {.dlid = peer->lid, .port_num = port->port},
    };

    /* RoCE always goes by GID; InfiniBand only from subnet to subnet. */
    if (port->link_layer == IBV_LINK_LAYER_ETHERNET ||
        memcmp(port->gid.raw, peer->gid, sizeof port->gid.global.subnet_prefix) != 0) {
        attr.ah_attr.is_global = 1;
        attr.ah_attr.grh.sgid_index = port->gid_index;
        attr.ah_attr.grh.hop_limit = HOP_LIMIT;
        memcpy(attr.ah_attr.grh.dgid.raw, peer->gid, sizeof peer->gid);
    }
    return modify(ep, &attr,
                  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                  "RTR", err);
}

int sfab_vb_qp_rts(struct sfab_vb_ep *ep, uint8_t peer_rd_atomic, struct sfab_err *err)
{
    const struct sfab_vb_tp *tp = sfab_vb_owner(ep);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                               .sq_psn = ep->psn,
                               .max_rd_atomic = sfab_vb_rd_atomic_out(tp, peer_rd_atomic)};

    sfab_vb_qp_timers(tp, &attr);
    return modify(ep, &attr,
                  IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                      IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
                  "RTS", err);
}
