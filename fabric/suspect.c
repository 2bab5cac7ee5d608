/* suspect.c - what a device may take tens of seconds to report, or never does: that nothing gets through.
 *
 * Whoever has sent something that has not arrived is the one who can know it, because the other side
 * has not acknowledged it; so nobody needs to ask anything of those that owe him something, and no
 * connection is made for the purpose. A rank that stands still acknowledges too: its device does. */
#include "fabric/suspect.h"

#include <errno.h>
#include <stdio.h>

static void look_at(struct sfab_ctx *ctx, uint32_t rank, struct sfab_ep *ep, uint64_t now_ns,
                    bool first)
{
    struct sfab_peer *peer = &ctx->peers[rank];
    uint64_t timeout_ns = (uint64_t)ctx->config.heartbeat_ms * 1000000;
    char text[SFAB_BOOT_WHY_MAX];

    if (ep->ops->flush(ep) != -EAGAIN) {
        peer->unanswered_ns = 0;
        return;
    }
    if (first) /* this has only asked: there may be nothing amiss */
        return;
    if (peer->unanswered_ns == 0 || now_ns - peer->unanswered_seen_ns >= timeout_ns)
        peer->unanswered_ns = now_ns;
    peer->unanswered_seen_ns = now_ns;
    if (now_ns - peer->unanswered_ns >= timeout_ns) {
        snprintf(text, sizeof text, "what was sent over %s was not acknowledged for %.1f s",
                 ep->ops->name, (double)(now_ns - peer->unanswered_ns) / 1e9);
        sfab_peer_accuse(ctx, rank, text);
    }
}

void sfab_suspect_look(struct sfab_ctx *ctx, uint64_t began_ns, uint64_t now_ns)
{
    bool first = ctx->suspect_began_ns != began_ns;

    if (now_ns - began_ns < SFAB_SUSPECT_NS || (!first && now_ns < ctx->suspect_next_ns))
        return;
    ctx->suspect_began_ns = began_ns;
    ctx->suspect_next_ns = now_ns + SFAB_SUSPECT_NS;
    for (uint32_t tp = 0; tp < ctx->tp_count; tp++) {
        /* Where a computing peer does not answer, silence says nothing. */
        if ((ctx->tps[tp]->caps.flags & (SFAB_CAP_MAP | SFAB_CAP_BUSY_READABLE)) !=
            SFAB_CAP_BUSY_READABLE)
            continue;
        for (uint32_t rank = 0; rank < ctx->size; rank++) {
            struct sfab_ep *ep = atomic_load_explicit(&ctx->eps[tp][rank], memory_order_acquire);

            if (ep != NULL && rank != ctx->rank &&
                atomic_load_explicit(&ep->state, memory_order_acquire) == SFAB_EP_READY &&
                atomic_load_explicit(&ctx->peers[rank].presence, memory_order_acquire) ==
                    SFAB_PRESENT)
                look_at(ctx, rank, ep, now_ns, first);
        }
    }
}
