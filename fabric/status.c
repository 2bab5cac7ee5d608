/* status.c - the beat of a rank, and for how long it has not moved. */
#include "fabric/status.h"

uint64_t sfab_status_tick(struct sfab_ctx *ctx)
{
    struct sfab_arena_status *status;
    uint64_t now = ctx->rt->now_ns(ctx);

    pthread_mutex_lock(&ctx->lock);
    bool opened = ctx->opened > 0;
    pthread_mutex_unlock(&ctx->lock);
    if (!opened)
        return SFAB_BEAT_NS;
    status = sfab_status(ctx);
    uint64_t moves = sfab_groups_moves(ctx);
    uint64_t doing = atomic_load_explicit(&status->doing, memory_order_relaxed);
    if (moves != ctx->moves_seen || doing != ctx->doing_seen || ctx->moved_at_ns == 0) {
        ctx->moves_seen = moves;
        ctx->doing_seen = doing;
        ctx->moved_at_ns = now;
    }
    atomic_store_explicit(&status->still_ns, now - ctx->moved_at_ns, memory_order_relaxed);
    atomic_store_explicit(&status->beat, now, memory_order_relaxed);
    return SFAB_BEAT_NS;
}
