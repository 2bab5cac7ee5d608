/* status.h - the line in a rank's sync memory that tells the others what it is at. */
#ifndef SFAB_FABRIC_STATUS_H
#define SFAB_FABRIC_STATUS_H

#include "fabric/ctx.h"

/* This rank's. */
static inline struct sfab_arena_status *sfab_status(struct sfab_ctx *ctx)
{
    return &((struct sfab_arena_head *)ctx->arena.addr)->status;
}

/* OWNER: waits from now on, for that rank (-1: none in particular); and no more. */
static inline void sfab_status_waits(struct sfab_ctx *ctx, int32_t rank)
{
    atomic_store_explicit(&sfab_status(ctx)->doing, SFAB_AT_WAIT + (uint64_t)(rank + 1),
                          memory_order_relaxed);
}

static inline void sfab_status_computes(struct sfab_ctx *ctx)
{
    atomic_store_explicit(&sfab_status(ctx)->doing, SFAB_AT_COMPUTE, memory_order_relaxed);
}

/* CONTROL THREAD, about every SFAB_BEAT_NS: returns in how many ns again. */
uint64_t sfab_status_tick(struct sfab_ctx *ctx);

#endif
