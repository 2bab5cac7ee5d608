/* bulk.c - puts and gets longer than the device's longest message, in pieces.
 *
 * All or nothing as long as the pieces fill no more than half the send queue. Longer ones (hundreds
 * of megabytes at the least) go as far as there is room and answer -EAGAIN; the next call with the
 * same arguments goes on from there, unless something else was posted meanwhile. Writing or reading
 * a part twice does no harm, since neither side may look before the flush or the signal. */
#include <errno.h>

#include "verbs/chain.h"

static uint64_t resume_at(const struct sfab_vb_ep *ep, const struct sfab_vb_transfer *transfer)
{
    const struct sfab_vb_partial *partial = &ep->partial;
    bool same = partial->opcode == (uint32_t)transfer->opcode &&
                partial->remote == transfer->remote && partial->local == transfer->local &&
                partial->len_bytes == transfer->len_bytes && partial->posted == ep->posted;

    return same ? partial->done_bytes : 0;
}

static int leave_at(struct sfab_vb_ep *ep, const struct sfab_vb_transfer *transfer, uint64_t done)
{
    ep->partial = (struct sfab_vb_partial){.opcode = (uint32_t)transfer->opcode,
                                           .remote = transfer->remote,
                                           .local = transfer->local,
                                           .len_bytes = transfer->len_bytes,
                                           .done_bytes = done,
                                           .posted = ep->posted};
    return -EAGAIN;
}

/* Adds pieces from *done on while the chain and the queues have room for them. */
static void add_pieces(struct sfab_vb_chain *chain, const struct sfab_vb_transfer *transfer,
                       uint32_t room, uint64_t *done)
{
    uint32_t max = sfab_vb_owner(chain->ep)->max_msg_bytes;

    while (*done < transfer->len_bytes && chain->count < room) {
        uint64_t left = transfer->len_bytes - *done;
        uint32_t len = left < max ? (uint32_t)left : max;
        struct ibv_send_wr *wr = sfab_vb_chain_add(chain, transfer->opcode);

        sfab_vb_wr_remote(wr, transfer->remote + *done, transfer->rkey);
        sfab_vb_wr_local(wr, (const void *)(uintptr_t)(transfer->local + *done), len,
                         transfer->lkey);
        *done += len;
    }
}

static bool add_signal(struct sfab_vb_chain *chain, const struct sfab_vb_transfer *transfer,
                       uint32_t room)
{
    struct ibv_send_wr *wr;

    if (chain->count >= room)
        return false;
    wr = sfab_vb_chain_add(chain, IBV_WR_RDMA_WRITE);
    sfab_vb_wr_remote(wr, transfer->signal_remote, transfer->signal_rkey);
    sfab_vb_wr_copy(chain, wr, &transfer->value, sizeof transfer->value);
    return true;
}

int sfab_vb_bulk(struct sfab_vb_ep *ep, const struct sfab_vb_transfer *transfer)
{
    const struct sfab_vb_tp *tp = sfab_vb_owner(ep);
    uint64_t pieces =
        (transfer->len_bytes - 1) / tp->max_msg_bytes + 1 + (transfer->signal ? 1 : 0);
    bool at_once = pieces <= tp->sq_depth / 2;
    bool signal_open = transfer->signal;
    uint64_t done;
    int rc = sfab_vb_begin(ep, at_once ? (uint32_t)pieces : 1);

    if (rc != 0)
        return rc;
    done = at_once ? 0 : resume_at(ep, transfer);
    while (done < transfer->len_bytes || signal_open) {
        struct sfab_vb_chain chain;
        uint32_t room = sfab_vb_room(ep);

        if (room > SFAB_VB_CHAIN)
            room = SFAB_VB_CHAIN;
        if (room == 0)
            return leave_at(ep, transfer, done);
        sfab_vb_chain_start(&chain, ep);

        uint64_t reached = done;

        add_pieces(&chain, transfer, room, &reached);
        if (signal_open && reached == transfer->len_bytes)
            signal_open = !add_signal(&chain, transfer, room);
        rc = sfab_vb_chain_post(&chain);
        if (rc != 0)
            return rc;
        done = reached;
    }
    ep->partial.done_bytes = 0;
    return 0;
}
