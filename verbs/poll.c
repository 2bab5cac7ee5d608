/* poll.c - completions: every status is looked at, also of requests that nobody asked to hear of.
 */
#include "verbs/internal.h"

#include <errno.h>
#include <stdio.h>

/* Copies out the results of atomics up to what is retired. */
static void deliver_atomics(struct sfab_vb_ep *ep)
{
    while (ep->atomics_retired != ep->atomics_posted) {
        uint32_t slot = ep->atomics_retired % SFAB_VB_ATOMICS;

        if ((int32_t)(ep->retired - ep->rings->atomic[slot].seq) < 0)
            return;
        if (ep->rings->atomic[slot].result != NULL)
            *ep->rings->atomic[slot].result = ep->rings->value[slot];
        ep->atomics_retired++;
    }
}

/* One completion stands for all requests up to its own. */
static void retire(struct sfab_vb_tp *tp, struct sfab_vb_ep *ep, uint32_t seq)
{
    uint32_t count = seq - ep->retired;

    if (SFAB_UNLIKELY(count > ep->posted - ep->retired))
        return; /* not one of ours */
    ep->retired = seq;
    tp->outstanding -= count;
}

static void handle(struct sfab_vb_tp *tp, const struct ibv_wc *wc)
{
    struct sfab_vb_ep *ep = sfab_vb_ep_at(tp, wc->wr_id >> 32);

    if (SFAB_UNLIKELY(ep == NULL || ep->qp == NULL || ep->qp->qp_num != wc->qp_num))
        return; /* of a queue pair that was destroyed */
    retire(tp, ep, (uint32_t)wc->wr_id);
    if (SFAB_LIKELY(wc->status == IBV_WC_SUCCESS)) {
        if (ep->atomics_posted != ep->atomics_retired)
            deliver_atomics(ep);
    } else {
        sfab_vb_fail_completion(ep, wc);
    }
}

int sfab_vb_poll(struct sfab_tp *base)
{
    struct sfab_vb_tp *tp = sfab_vb_tp_of(base);
    struct ibv_wc wc[SFAB_VB_POLL_BATCH];
    int n;

    base->connections_now = atomic_load_explicit(&tp->qps, memory_order_relaxed);
    if (SFAB_UNLIKELY(--tp->polls_to_look == 0)) {
        tp->polls_to_look = SFAB_VB_POLLS_TO_LOOK;
        sfab_vb_look_at_device(tp);
    }
    if (SFAB_UNLIKELY(base->err.code != 0))
        return base->err.code;
    if (tp->outstanding == 0)
        return 0;
    n = ibv_poll_cq(tp->cq, SFAB_VB_POLL_BATCH, wc);
    if (SFAB_UNLIKELY(n < 0))
        return sfab_fail(&base->err, SFAB_ERR_PROVIDER, "%s: its completion queue cannot be read",
                         tp->port.device);
    for (int i = 0; i < n; i++)
        handle(tp, &wc[i]);
    return n;
}

/* ---- failures ------------------------------------------------------------------------------- */

static const char *retry_text(const struct sfab_vb_tp *tp, char *buf, size_t cap)
{
    const struct sfab_config *config = tp->env.config;
    uint64_t try_us = (UINT64_C(4096) << config->verbs_timeout) / 1000;

    snprintf(buf, cap,
             "it did not answer in %lld retries of %llu.%03llu ms (SFAB_VERBS_RETRY=%lld, "
             "SFAB_VERBS_TIMEOUT=%lld): the process or its host is gone, or the network between is "
             "down",
             (long long)config->verbs_retry, (unsigned long long)try_us / 1000,
             (unsigned long long)try_us % 1000, (long long)config->verbs_retry,
             (long long)config->verbs_timeout);
    return buf;
}

static const char *meaning(const struct sfab_vb_tp *tp, enum ibv_wc_status status, char *buf,
                           size_t cap)
{
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
        return retry_text(tp, buf, cap);
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return "it was not ready to receive for too long";
    case IBV_WC_WR_FLUSH_ERR:
        return "the connection was broken before this could be sent: the peer has closed it, the "
               "port here went down, or a local buffer was not registered";
    case IBV_WC_REM_ACCESS_ERR:
        return "it refused the access: that memory was freed or closed there, or its key does not "
               "allow this";
    case IBV_WC_REM_INV_REQ_ERR:
        return "it refused the request as malformed (an atomic on an unaligned word, or a message "
               "too long for it)";
    case IBV_WC_REM_OP_ERR:
        return "its adapter failed to carry the request out";
    case IBV_WC_LOC_PROT_ERR:
        return "the local buffer is not registered (any more): it must stay so until a flush";
    case IBV_WC_LOC_QP_OP_ERR:
        return "the local adapter could not carry it out: its port or interface is down, or the "
               "local "
               "buffer is not registered (any more)";
    default:
        return "the local adapter or its driver failed";
    }
}

void sfab_vb_fail_completion(struct sfab_vb_ep *ep, const struct ibv_wc *wc)
{
    const struct sfab_vb_tp *tp = sfab_vb_owner(ep);
    bool gone = wc->status == IBV_WC_RETRY_EXC_ERR || wc->status == IBV_WC_RNR_RETRY_EXC_ERR ||
                wc->status == IBV_WC_WR_FLUSH_ERR;
    char name[SFAB_VB_NAME_BYTES], text[256];

    if (sfab_vb_state(ep) == SFAB_EP_FAILED)
        return; /* the requests behind the one that failed */
    /* Its queue pair went down under it, without a word from the network: SoftRoCE's do when the
     * interface is set down. */
    int code = wc->status == IBV_WC_LOC_QP_OP_ERR ? -ENETDOWN : SFAB_ERR_PROVIDER;
    sfab_vb_ep_fail(ep, gone ? SFAB_ERR_PEER_DEAD : code,
                    "an operation towards %s over %s failed: %s (%s, vendor error 0x%x)",
                    sfab_vb_peer(ep, name), tp->port.device,
                    meaning(tp, wc->status, text, sizeof text), ibv_wc_status_str(wc->status),
                    wc->vendor_err);
}
