/* choose.c - the choice of a barrier algorithm. */
#include "collectives/choose.h"

#include <stdio.h>
#include <string.h>

uint32_t sfab_choose_radix(const struct sfab_ctx *ctx, uint32_t size)
{
    uint32_t radix = ctx->config.radix != 0 ? (uint32_t)ctx->config.radix : 4;

    if (radix > size)
        radix = size;
    return radix < 2 ? 2 : radix;
}

/* Whether all ranks run under one kernel, whatever nodes they pretend. */
static bool one_kernel(const struct sfab_ctx *ctx)
{
    return ctx->local_ranks == ctx->size;
}

static bool all_mapped(const struct sfab_ctx *ctx)
{
    return ctx->nodes == 1 && sfab_ctx_transport(ctx, "shm") == 0;
}

const struct sfab_barrier_algorithm *sfab_choose_algorithm(const struct sfab_group *group,
                                                           char *reason, size_t cap)
{
    const struct sfab_ctx *ctx = group->ctx;
    const struct sfab_barrier_algorithm *central = all_mapped(ctx) ? &sfab_central : &sfab_star;

    switch ((enum sfab_barrier_choice)ctx->config.barrier) {
    case SFAB_BARRIER_DISSEMINATION:
        snprintf(reason, cap, "SFAB_BARRIER asks for it");
        return &sfab_dissemination;
    case SFAB_BARRIER_CENTRAL:
        snprintf(reason, cap, "SFAB_BARRIER asks for it");
        return central;
    case SFAB_BARRIER_AUTO:
        break;
    }
    if (one_kernel(ctx) && ctx->crowded) {
        snprintf(reason, cap, "%u ranks share %u CPUs, so the fewest wake-ups win",
                 ctx->local_ranks, ctx->local_cpus_fit);
        return central;
    }
    snprintf(reason, cap, "%s",
             one_kernel(ctx) ? "every rank has a CPU of its own" : "ranks are on several machines");
    return &sfab_dissemination;
}
