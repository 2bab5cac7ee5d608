/* post.c - the hot path: operations that are one or two work requests, and flush.
 *
 * Order. RC queue pairs execute writes in the order of posting, at the target too, as long as
 * nothing allows relaxed ordering (mr.c); so a signal is simply a later write. Completion. RC
 * completes in order, and a completed write has been acknowledged by the target's adapter; so a
 * flush needs the completion of the last request only, for which it adds an empty signalled write
 * unless the last one was signalled anyway. */
#include <errno.h>

#include "verbs/chain.h"

int sfab_vb_not_ready(struct sfab_vb_ep *ep)
{
    int rc = sfab_vb_connect(&ep->base);

    return rc == 0 ? -EAGAIN : rc;
}

int sfab_vb_post_failed(struct sfab_vb_chain *chain, const struct ibv_send_wr *bad, int errnum)
{
    struct sfab_vb_ep *ep = chain->ep;
    struct sfab_vb_tp *tp = sfab_vb_owner(ep);
    char name[SFAB_VB_NAME_BYTES];
    uint32_t went = 0;

    while (went < chain->count && &chain->wr[went] != bad)
        went++;
    if (bad == NULL)
        went = 0;
    ep->posted += went;
    tp->outstanding += went;
    return sfab_vb_ep_fail(ep, SFAB_ERR_PROVIDER,
                           "%s does not take an operation towards %s: %s (%u of %u entries of its "
                           "send queue in use)",
                           tp->port.device, sfab_vb_peer(ep, name), sfab_errno_text(errnum),
                           ep->posted - ep->retired, tp->sq_depth);
}

/* Fills in where the data of a one-message put comes from. */
static inline int put_source(struct sfab_vb_chain *chain, struct ibv_send_wr *wr,
                             const struct sfab_tp_mem *mem, const void *src, size_t len)
{
    const struct sfab_vb_tp *tp = sfab_vb_owner(chain->ep);

    if (len <= tp->inline_bytes || (mem == NULL && len <= tp->base.caps.inline_bytes))
        sfab_vb_wr_copy(chain, wr, src, (uint32_t)len);
    else if (SFAB_LIKELY(mem != NULL))
        sfab_vb_wr_local(wr, src, (uint32_t)len, ((const struct sfab_vb_mem *)mem)->lkey);
    else
        return -EINVAL;
    return 0;
}

int sfab_vb_put(struct sfab_ep *base, const struct sfab_raddr *to, uint64_t offset,
                const struct sfab_tp_mem *mem, const void *src, size_t len)
{
    struct sfab_vb_ep *ep = sfab_vb_ep_of(base);
    struct sfab_vb_chain chain;
    struct ibv_send_wr *wr;
    int rc;

    if (SFAB_UNLIKELY(len == 0))
        return 0;
    if (SFAB_UNLIKELY(len > sfab_vb_owner(ep)->max_msg_bytes)) {
        if (mem == NULL)
            return -EINVAL;
        return sfab_vb_bulk(
            ep, &(struct sfab_vb_transfer){.opcode = IBV_WR_RDMA_WRITE,
                                           .remote = to->base + offset,
                                           .rkey = (uint32_t)to->key,
                                           .local = (uintptr_t)src,
                                           .lkey = ((const struct sfab_vb_mem *)mem)->lkey,
                                           .len_bytes = len});
    }
    rc = sfab_vb_begin(ep, 1);
    if (SFAB_UNLIKELY(rc != 0))
        return rc;
    sfab_vb_chain_start(&chain, ep);
    wr = sfab_vb_chain_add(&chain, IBV_WR_RDMA_WRITE);
    sfab_vb_wr_remote(wr, to->base + offset, to->key);
    rc = put_source(&chain, wr, mem, src, len);
    return SFAB_UNLIKELY(rc != 0) ? rc : sfab_vb_chain_post(&chain);
}

int sfab_vb_get(struct sfab_ep *base, const struct sfab_raddr *from, uint64_t offset,
                const struct sfab_tp_mem *mem, void *dst, size_t len)
{
    struct sfab_vb_ep *ep = sfab_vb_ep_of(base);
    struct sfab_vb_chain chain;
    struct ibv_send_wr *wr;
    int rc;

    if (SFAB_UNLIKELY(len == 0))
        return 0;
    if (SFAB_UNLIKELY(mem == NULL))
        return -EINVAL;
    if (SFAB_UNLIKELY(len > sfab_vb_owner(ep)->max_msg_bytes))
        return sfab_vb_bulk(
            ep, &(struct sfab_vb_transfer){.opcode = IBV_WR_RDMA_READ,
                                           .remote = from->base + offset,
                                           .rkey = (uint32_t)from->key,
                                           .local = (uintptr_t)dst,
                                           .lkey = ((const struct sfab_vb_mem *)mem)->lkey,
                                           .len_bytes = len});
    rc = sfab_vb_begin(ep, 1);
    if (SFAB_UNLIKELY(rc != 0))
        return rc;
    sfab_vb_chain_start(&chain, ep);
    wr = sfab_vb_chain_add(&chain, IBV_WR_RDMA_READ);
    sfab_vb_wr_remote(wr, from->base + offset, from->key);
    sfab_vb_wr_local(wr, dst, (uint32_t)len, ((const struct sfab_vb_mem *)mem)->lkey);
    return sfab_vb_chain_post(&chain);
}

int sfab_vb_put_u64(struct sfab_ep *base, const struct sfab_raddr *to, uint64_t offset,
                    uint64_t value)
{
    struct sfab_vb_ep *ep = sfab_vb_ep_of(base);
    struct sfab_vb_chain chain;
    struct ibv_send_wr *wr;
    int rc = sfab_vb_begin(ep, 1);

    if (SFAB_UNLIKELY(rc != 0))
        return rc;
    sfab_vb_chain_start(&chain, ep);
    wr = sfab_vb_chain_add(&chain, IBV_WR_RDMA_WRITE);
    sfab_vb_wr_remote(wr, to->base + offset, to->key);
    sfab_vb_wr_copy(&chain, wr, &value, sizeof value);
    return sfab_vb_chain_post(&chain);
}

int sfab_vb_put_signal(struct sfab_ep *base, const struct sfab_raddr *to, uint64_t offset,
                       const struct sfab_tp_mem *mem, const void *src, size_t len,
                       const struct sfab_raddr *signal_to, uint64_t signal_offset, uint64_t value)
{
    struct sfab_vb_ep *ep = sfab_vb_ep_of(base);
    struct sfab_vb_chain chain;
    struct ibv_send_wr *wr;
    int rc;

    if (len == 0)
        return sfab_vb_put_u64(base, signal_to, signal_offset, value);
    if (SFAB_UNLIKELY(len > sfab_vb_owner(ep)->max_msg_bytes)) {
        if (mem == NULL)
            return -EINVAL;
        return sfab_vb_bulk(
            ep, &(struct sfab_vb_transfer){.opcode = IBV_WR_RDMA_WRITE,
                                           .remote = to->base + offset,
                                           .rkey = (uint32_t)to->key,
                                           .local = (uintptr_t)src,
                                           .lkey = ((const struct sfab_vb_mem *)mem)->lkey,
                                           .len_bytes = len,
                                           .signal = true,
                                           .signal_remote = signal_to->base + signal_offset,
                                           .signal_rkey = (uint32_t)signal_to->key,
                                           .value = value});
    }
    rc = sfab_vb_begin(ep, 2);
    if (SFAB_UNLIKELY(rc != 0))
        return rc;
    sfab_vb_chain_start(&chain, ep);
    wr = sfab_vb_chain_add(&chain, IBV_WR_RDMA_WRITE);
    sfab_vb_wr_remote(wr, to->base + offset, to->key);
    rc = put_source(&chain, wr, mem, src, len);
    if (SFAB_UNLIKELY(rc != 0))
        return rc;
    wr = sfab_vb_chain_add(&chain, IBV_WR_RDMA_WRITE);
    sfab_vb_wr_remote(wr, signal_to->base + signal_offset, signal_to->key);
    sfab_vb_wr_copy(&chain, wr, &value, sizeof value);
    return sfab_vb_chain_post(&chain);
}

/* ---- atomics -------------------------------------------------------------------------------- */

/* The device writes the old value into a slot of ours; poll copies it to where it is wanted. */
static int atomic_op(struct sfab_vb_ep *ep, enum ibv_wr_opcode opcode, const struct sfab_raddr *to,
                     uint64_t offset, uint64_t compare_add, uint64_t swap, uint64_t *result)
{
    struct sfab_vb_chain chain;
    struct ibv_send_wr *wr;
    uint32_t slot = ep->atomics_posted % SFAB_VB_ATOMICS;
    int rc;

    if (SFAB_UNLIKELY(!sfab_vb_owner(ep)->atomics))
        return -EOPNOTSUPP;
    rc = sfab_vb_begin(ep, 1);
    if (SFAB_UNLIKELY(rc != 0))
        return rc;
    if (SFAB_UNLIKELY(ep->atomics_posted - ep->atomics_retired == SFAB_VB_ATOMICS))
        return -EAGAIN; /* one of the last SFAB_VB_ATOMICS requests is signalled */
    sfab_vb_chain_start(&chain, ep);
    wr = sfab_vb_chain_add(&chain, opcode);
    wr->wr.atomic.remote_addr = to->base + offset;
    wr->wr.atomic.rkey = (uint32_t)to->key;
    wr->wr.atomic.compare_add = compare_add;
    wr->wr.atomic.swap = swap;
    sfab_vb_wr_local(wr, &ep->rings->value[slot], sizeof(uint64_t), ep->rings_lkey);
    ep->rings->atomic[slot].result = result;
    ep->rings->atomic[slot].seq = chain.seq;
    rc = sfab_vb_chain_post(&chain);
    if (SFAB_LIKELY(rc == 0))
        ep->atomics_posted++;
    return rc;
}

int sfab_vb_fetch_add(struct sfab_ep *base, const struct sfab_raddr *to, uint64_t offset,
                      uint64_t add, uint64_t *result)
{
    return atomic_op(sfab_vb_ep_of(base), IBV_WR_ATOMIC_FETCH_AND_ADD, to, offset, add, 0, result);
}

int sfab_vb_compare_swap(struct sfab_ep *base, const struct sfab_raddr *to, uint64_t offset,
                         uint64_t expected, uint64_t desired, uint64_t *result)
{
    return atomic_op(sfab_vb_ep_of(base), IBV_WR_ATOMIC_CMP_AND_SWP, to, offset, expected, desired,
                     result);
}

/* ---- flush ---------------------------------------------------------------------------------- */

/* An empty signalled write, whose completion retires all before it. */
static int post_marker(struct sfab_vb_ep *ep)
{
    struct sfab_vb_chain chain;
    struct ibv_send_wr *wr;
    int rc = sfab_vb_begin(ep, 1);

    if (rc != 0)
        return rc;
    sfab_vb_chain_start(&chain, ep);
    wr = sfab_vb_chain_add(&chain, IBV_WR_RDMA_WRITE);
    wr->send_flags = IBV_SEND_SIGNALED;
    chain.signalled = chain.seq;
    wr->num_sge = 0;
    sfab_vb_wr_remote(wr, 0, 0); /* of an empty write neither is looked at */
    rc = sfab_vb_chain_post(&chain);
    return rc == 0 ? -EAGAIN : rc;
}

int sfab_vb_flush(struct sfab_ep *base)
{
    struct sfab_vb_ep *ep = sfab_vb_ep_of(base);
    uint32_t state = sfab_vb_state(ep);

    if (SFAB_UNLIKELY(state == SFAB_EP_FAILED))
        return base->err.code;
    if (state != SFAB_EP_READY || ep->posted == ep->retired)
        return 0;
    return ep->signalled == ep->posted ? -EAGAIN : post_marker(ep);
}
