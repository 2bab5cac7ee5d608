/* suspect.c - what a device may take tens of seconds to report, or never does: that nothing gets through.
 *
 * Whoever has sent something that has not arrived is the one who can know it, because the other side
 * has not acknowledged it; so nobody needs to ask anything of those that owe him something, and no
 * connection is made for the purpose. A rank that stands still acknowledges too: its device does.
 *
 * Who is cut off from everybody sees the others as gone, and may be the only one that looks: the others may
 * all be where they send nothing. So before anybody is accused, some others are asked. */
#include "fabric/suspect.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>

/* Of the heartbeat's timeout. */
static uint64_t part_ns(const struct sfab_ctx *ctx, uint64_t percent)
{
    return (uint64_t)ctx->config.heartbeat_ms * 10000 * percent;
}

static uint64_t silence_ns(const struct sfab_ctx *ctx)
{
    return part_ns(ctx, 60);
}

/* Where a computing peer does not answer, silence says nothing; nor does it where nothing is sent. */
static bool tells(const struct sfab_tp *tp)
{
    return (tp->caps.flags & (SFAB_CAP_MAP | SFAB_CAP_BUSY_READABLE)) == SFAB_CAP_BUSY_READABLE;
}

static bool is_present(const struct sfab_ctx *ctx, uint32_t rank)
{
    return atomic_load_explicit(&ctx->peers[rank].presence, memory_order_acquire) == SFAB_PRESENT;
}

/* ---- who is cut off ---------------------------------------------------------------------- */

/* Whether it will say something: sooner or later, or now by having failed as well. */
static bool ask(struct sfab_ctx *ctx, uint32_t rank)
{
    struct sfab_peer *peer = &ctx->peers[rank];
    struct sfab_ep *ep = peer->ep;

    if (ep == NULL || !tells(ep->tp) || !is_present(ctx, rank))
        return false;
    return sfab_peer_unreachable(ctx, rank) ||
           (peer->arena.base != 0 &&
            ep->ops->get(ep, &peer->arena, offsetof(struct sfab_arena_head, status.beat),
                         ctx->arena_mem[peer->tp], &ctx->scratch[SFAB_SCRATCH_PROBE],
                         sizeof(uint64_t)) == 0);
}

void sfab_suspect(struct sfab_ctx *ctx, uint32_t rank, const char *text)
{
    struct sfab_doubt *d = &ctx->doubt;

    if (d->asked_count > 0 || sfab_peer_accused(ctx, rank) || sfab_peer_accused(ctx, ctx->rank))
        return;
    for (uint32_t i = 1; i < ctx->size && d->asked_count < SFAB_WITNESSES; i++) {
        uint32_t other = (ctx->rank + i) % ctx->size;

        if (other != rank && ask(ctx, other))
            d->asked[d->asked_count++] = other;
    }
    if (d->asked_count == 0) {
        sfab_peer_accuse(ctx, rank, text);
        return;
    }
    d->rank = rank;
    d->since_ns = ctx->rt->now_ns(ctx);
    snprintf(d->text, sizeof d->text, "%s", text);
}

/* The others do answer: whoever else cannot be reached is accused with the first one. */
static void accuse_all(struct sfab_ctx *ctx)
{
    sfab_peer_accuse(ctx, ctx->doubt.rank, ctx->doubt.text);
    for (uint32_t rank = 0; rank < ctx->size; rank++)
        if (is_present(ctx, rank) && sfab_peer_unreachable(ctx, rank))
            sfab_peer_accuse(ctx, rank, ctx->peers[rank].ep->err.text);
}

/* Whether these are dead all at once, the rendezvous knows. */
static void accuse_unreached(struct sfab_ctx *ctx)
{
    const struct sfab_doubt *d = &ctx->doubt;

    sfab_peer_accuse(ctx, d->rank, d->text);
    for (uint32_t i = 0; i < d->asked_count; i++)
        sfab_peer_accuse(ctx, d->asked[i], "it did not answer when it was asked as a witness");
}

/* Looks for the witnesses' answers. One that is gone meanwhile says nothing. */
static void look_at_doubt(struct sfab_ctx *ctx, uint64_t now_ns)
{
    struct sfab_doubt *d = &ctx->doubt;
    bool over = now_ns - d->since_ns >= part_ns(ctx, 15);
    uint32_t silent = 0, failed = 0, answers = 0;
    char text[SFAB_BOOT_WHY_MAX];

    for (uint32_t i = 0; i < d->asked_count; i++) {
        struct sfab_ep *ep = ctx->peers[d->asked[i]].ep;
        int rc = is_present(ctx, d->asked[i]) ? ep->ops->flush(ep) : 1;

        uint64_t since_ns = ctx->peers[d->asked[i]].unanswered_ns;
        bool long_silent = rc == -EAGAIN && since_ns != 0 && now_ns - since_ns >= silence_ns(ctx);

        answers += rc == 0;
        silent += rc == -EAGAIN && !long_silent;
        failed += long_silent || (rc < 0 && rc != -EAGAIN);
    }
    if (answers == 0 && silent > 0 && !over)
        return;
    if (answers > 0 || silent + failed == 0) {
        accuse_all(ctx);
    } else if (is_present(ctx, d->rank)) {
        accuse_unreached(ctx);
        snprintf(text, sizeof text,
                 "it reaches none of %u others over its network: it is cut off from them",
                 silent + failed + 1);
        sfab_peer_accuse(ctx, ctx->rank, text);
    }
    d->asked_count = 0;
}

/* ---- who does not answer ----------------------------------------------------------------- */

static void look_at(struct sfab_ctx *ctx, uint32_t rank, struct sfab_ep *ep, uint64_t now_ns,
                    bool first)
{
    struct sfab_peer *peer = &ctx->peers[rank];
    uint64_t timeout_ns = silence_ns(ctx);
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
        sfab_suspect(ctx, rank, text);
    }
}

void sfab_suspect_look(struct sfab_ctx *ctx, uint64_t began_ns, uint64_t now_ns)
{
    bool first = ctx->suspect_began_ns != began_ns;

    if (ctx->doubt.asked_count > 0)
        look_at_doubt(ctx, now_ns);
    if (now_ns - began_ns < SFAB_SUSPECT_NS || (!first && now_ns < ctx->suspect_next_ns))
        return;
    ctx->suspect_began_ns = began_ns;
    ctx->suspect_next_ns = now_ns + SFAB_SUSPECT_NS;
    for (uint32_t tp = 0; tp < ctx->tp_count; tp++) {
        if (!tells(ctx->tps[tp]))
            continue;
        for (uint32_t rank = 0; rank < ctx->size; rank++) {
            struct sfab_ep *ep = atomic_load_explicit(&ctx->eps[tp][rank], memory_order_acquire);

            if (ep != NULL && rank != ctx->rank &&
                atomic_load_explicit(&ep->state, memory_order_acquire) == SFAB_EP_READY &&
                is_present(ctx, rank))
                look_at(ctx, rank, ep, now_ns, first);
        }
    }
}
