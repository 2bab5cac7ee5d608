/* choose.c - the choice of a barrier algorithm. */
#include "collectives/choose.h"

#include <stdio.h>
#include <string.h>

/* Whether all ranks run under one kernel, whatever nodes they pretend. */
static bool one_kernel(const struct sfab_ctx *ctx)
{
    return ctx->local_ranks == ctx->size;
}

uint32_t sfab_choose_radix(const struct sfab_ctx *ctx, uint32_t size)
{
    uint32_t radix = one_kernel(ctx) && ctx->crowded ? 2 : 4;

    if (ctx->config.radix != 0)
        radix = (uint32_t)ctx->config.radix;
    if (radix > size)
        radix = size;
    return radix < 2 ? 2 : radix;
}

static bool all_mapped(const struct sfab_ctx *ctx)
{
    return ctx->nodes == 1 && sfab_ctx_transport(ctx, "shm") == 0;
}

static const struct sfab_barrier_algorithm *automatic(const struct sfab_ctx *ctx, char *reason,
                                                      size_t cap)
{
    if (!one_kernel(ctx)) {
        snprintf(reason, cap, "ranks are on several machines");
        return &sfab_dissemination;
    }
    if (!ctx->crowded) {
        snprintf(reason, cap, "every rank has a CPU of its own");
        return &sfab_dissemination;
    }
    snprintf(reason, cap, "%u ranks share %u CPUs, so the fewest %s win", ctx->local_ranks,
             ctx->local_cpus_fit, all_mapped(ctx) ? "wake-ups" : "messages a round");
    return all_mapped(ctx) ? &sfab_central : &sfab_dissemination;
}

const struct sfab_barrier_algorithm *sfab_choose_algorithm(const struct sfab_group *group,
                                                           char *reason, size_t cap)
{
    const struct sfab_ctx *ctx = group->ctx;

    snprintf(reason, cap, "SFAB_BARRIER asks for it");
    switch ((enum sfab_barrier_choice)ctx->config.barrier) {
    case SFAB_BARRIER_DISSEMINATION:
        return &sfab_dissemination;
    case SFAB_BARRIER_CENTRAL:
        return all_mapped(ctx) ? &sfab_central : &sfab_star;
    case SFAB_BARRIER_AUTO:
        break;
    }
    return automatic(ctx, reason, cap);
}
