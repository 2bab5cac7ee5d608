/* chain.h - building a chain of work requests and posting it with one call. The common part of the
 * hot path (post.c) and of transfers longer than one message (bulk.c).
 *
 * Whether a request is signalled is decided here. Two rules keep everything moving: of any
 * signal_every requests in a row on one queue pair one is signalled, so a full send queue always
 * has a completion to come; and once the completion queue is half spoken for, every request is
 * signalled, so idle peers' unsignalled ones can never hold all of it. */
#ifndef SFAB_VERBS_CHAIN_H
#define SFAB_VERBS_CHAIN_H

#include "verbs/internal.h"

#define SFAB_VB_CHAIN 8u

struct sfab_vb_chain {
    struct sfab_vb_ep *ep;
    uint32_t seq, signalled; /* what ep->posted and ep->signalled will be */
    uint32_t count;
    struct ibv_send_wr wr[SFAB_VB_CHAIN];
    struct ibv_sge sge[SFAB_VB_CHAIN];
};

/* Cold: connects, or says why not. */
int sfab_vb_not_ready(struct sfab_vb_ep *ep);
/* Cold: accounts for what was posted before requests[bad] and ends the endpoint. */
int sfab_vb_post_failed(struct sfab_vb_chain *chain, const struct ibv_send_wr *bad, int errnum);

/* A transfer of any length, with or without a signal behind it (bulk.c). */
struct sfab_vb_transfer {
    enum ibv_wr_opcode opcode;
    uint64_t remote, local, len_bytes;
    uint32_t rkey, lkey;
    bool signal;
    uint32_t signal_rkey;
    uint64_t signal_remote;
    uint64_t value;
};
int sfab_vb_bulk(struct sfab_vb_ep *ep, const struct sfab_vb_transfer *transfer);

/* How many requests can be posted now. */
static inline uint32_t sfab_vb_room(const struct sfab_vb_ep *ep)
{
    const struct sfab_vb_tp *tp = sfab_vb_owner(ep);
    uint32_t queue = tp->sq_depth - (ep->posted - ep->retired);
    uint32_t all = tp->cq_room - tp->outstanding;

    return queue < all ? queue : all;
}

/* 0 when that many requests can be posted. */
static inline int sfab_vb_begin(struct sfab_vb_ep *ep, uint32_t requests)
{
    if (SFAB_UNLIKELY(sfab_vb_state(ep) != SFAB_EP_READY))
        return sfab_vb_not_ready(ep);
    return SFAB_UNLIKELY(sfab_vb_room(ep) < requests) ? -EAGAIN : 0;
}

static inline void sfab_vb_chain_start(struct sfab_vb_chain *chain, struct sfab_vb_ep *ep)
{
    chain->ep = ep;
    chain->seq = ep->posted;
    chain->signalled = ep->signalled;
    chain->count = 0;
}

/* Adds a request that moves nothing yet: the caller fills in wr->sg_list[0] and what is special. */
static inline struct ibv_send_wr *sfab_vb_chain_add(struct sfab_vb_chain *chain,
                                                    enum ibv_wr_opcode opcode)
{
    struct sfab_vb_ep *ep = chain->ep;
    const struct sfab_vb_tp *tp = sfab_vb_owner(ep);
    uint32_t i = chain->count++;
    struct ibv_send_wr *wr = &chain->wr[i];

    chain->seq++;
    wr->wr_id = (uint64_t)ep->base.peer << 32 | chain->seq;
    wr->next = NULL;
    if (i > 0)
        chain->wr[i - 1].next = wr;
    wr->sg_list = &chain->sge[i];
    wr->num_sge = 1;
    wr->opcode = opcode;
    wr->send_flags = 0;
    if (SFAB_UNLIKELY(chain->seq - chain->signalled >= tp->signal_every ||
                      tp->outstanding + chain->count > tp->cq_room / 2)) {
        wr->send_flags = IBV_SEND_SIGNALED;
        chain->signalled = chain->seq;
    }
    return wr;
}

static inline void sfab_vb_wr_local(struct ibv_send_wr *wr, const void *at, uint32_t len,
                                    uint32_t lkey)
{
    *wr->sg_list = (struct ibv_sge){.addr = (uintptr_t)at, .length = len, .lkey = lkey};
}

static inline void sfab_vb_wr_remote(struct ibv_send_wr *wr, uint64_t remote, uint64_t rkey)
{
    wr->wr.rdma.remote_addr = remote;
    wr->wr.rdma.rkey = (uint32_t)rkey;
}

/* The bytes are taken at the call: into the request itself, or into this request's own piece of the
 * staging ring where the device inlines too little. */
static inline void sfab_vb_wr_copy(struct sfab_vb_chain *chain, struct ibv_send_wr *wr,
                                   const void *src, uint32_t len)
{
    struct sfab_vb_ep *ep = chain->ep;
    const struct sfab_vb_tp *tp = sfab_vb_owner(ep);

    if (SFAB_LIKELY(len <= tp->inline_bytes)) {
        wr->send_flags |= IBV_SEND_INLINE;
        sfab_vb_wr_local(wr, src, len, 0);
    } else {
        uint8_t *at = ep->rings->stage + (chain->seq & (tp->sq_depth - 1)) * SFAB_VB_STAGE_BYTES;

        __builtin_memcpy(at, src, len);
        sfab_vb_wr_local(wr, at, len, ep->rings_lkey);
    }
}

/* One call to the device; the requests' memory may go once it is back. */
static inline int sfab_vb_chain_post(struct sfab_vb_chain *chain)
{
    struct sfab_vb_ep *ep = chain->ep;
    struct ibv_send_wr *bad = NULL;
    int rc = ibv_post_send(ep->qp, chain->wr, &bad);

    if (SFAB_UNLIKELY(rc != 0))
        return sfab_vb_post_failed(chain, bad, rc);
    ep->posted = chain->seq;
    ep->signalled = chain->signalled;
    sfab_vb_owner(ep)->outstanding += chain->count;
    return 0;
}

#endif
