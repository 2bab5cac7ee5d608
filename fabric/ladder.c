/* ladder.c - how a waiting process gives way: spin, then yield, then sleep.
 *
 * How long each step lasts depends on whether every rank of the node has a CPU of its own (then spinning
 * is free, and a wake-up from sleep costs far more than a barrier) or not (then each spin keeps the
 * awaited rank from running). */
#include "fabric/cpu.h"
#include "fabric/ctx.h"

#include <sched.h>

enum { MICROSECOND = 1000, MILLISECOND = 1000000 };

int sfab_wait_policy_set(struct sfab_ctx *ctx)
{
    struct sfab_wait_policy *p = &ctx->wait;
    bool host_driven = false, wakes = true;

    for (uint32_t i = 0; i < ctx->tp_count; i++) {
        host_driven = host_driven || (ctx->tps[i]->caps.flags & SFAB_CAP_HOST_DRIVEN) != 0;
        wakes = wakes && (ctx->tps[i]->caps.flags & SFAB_CAP_WAKES_ON_WRITE) != 0;
    }
    /* A software device moves data on the CPUs that would spin. */
    bool spin_is_free = !ctx->crowded && !host_driven;

    p->first_spins = spin_is_free ? 4000 : 0;
    p->spin_ns = spin_is_free ? 200 * MICROSECOND : 0;
    p->yield_ns = 5 * MILLISECOND;
    switch ((enum sfab_wait_choice)ctx->config.wait) {
    case SFAB_WAIT_AUTO:
        break;
    case SFAB_WAIT_SPIN:
        p->first_spins = 4000;
        p->spin_ns = UINT64_MAX;
        break;
    case SFAB_WAIT_YIELD:
        p->first_spins = 0;
        p->spin_ns = 0;
        p->yield_ns = UINT64_MAX;
        break;
    case SFAB_WAIT_BLOCK:
        p->first_spins = 0;
        p->spin_ns = 0;
        p->yield_ns = 0;
        break;
    }
    if (ctx->config.spin_us >= 0)
        p->spin_ns = (uint64_t)ctx->config.spin_us * MICROSECOND;
    if (ctx->config.yield_us >= 0)
        p->yield_ns = (uint64_t)ctx->config.yield_us * MICROSECOND;
    /* Writes of a network peer end no sleep here (an RDMA write raises no event at its target), so the
     * naps are short then; each is one wake-up, some 5 us of CPU. */
    p->nap_ns = wakes ? 100 * MILLISECOND : 500 * MICROSECOND;
    return 0;
}

/* Sleeps until something may have happened, at most nap_ns. `last_look` is what must still be
 * unfinished when everything is armed; NULL: nothing. Returns its result if it is not. */
static int nap(struct sfab_ctx *ctx, struct sfab_op *last_look, uint64_t nap_ns)
{
    uint32_t armed = 0;
    int rc = SFAB_INPROGRESS;
    bool sleep = true;

    for (; sleep && armed < ctx->tp_count; armed++)
        sleep = ctx->tps[armed]->ops->prepare_wait(ctx->tps[armed]) == 0;
    if (sleep && last_look != NULL)
        rc = last_look->class->step(last_look);
    uint32_t faults = atomic_load_explicit(&ctx->faults, memory_order_acquire);
    if (last_look != NULL && faults != last_look->faults_seen)
        sleep = false;
    if (sleep && rc == SFAB_INPROGRESS) {
        ctx->counters.blocks++;
        /* One of them sleeps for all: the first, which wakes on writes if any does. */
        ctx->tps[0]->ops->wait(ctx->tps[0], nap_ns);
    }
    for (uint32_t i = 0; i < armed; i++)
        ctx->tps[i]->ops->unprepare_wait(ctx->tps[i]);
    return rc;
}

/* One step of the ladder after `waited_ns`. */
int sfab_ladder(struct sfab_ctx *ctx, struct sfab_op *op, uint64_t waited_ns, uint64_t left_ns)
{
    const struct sfab_wait_policy *p = &ctx->wait;

    if (waited_ns < p->spin_ns) {
        for (int i = 0; i < 64; i++) {
            if (op != NULL && op->watch != NULL &&
                atomic_load_explicit(op->watch, memory_order_relaxed) >= op->watch_value)
                break;
            sfab_cpu_relax();
        }
        return SFAB_INPROGRESS;
    }
    if (p->yield_ns == UINT64_MAX || waited_ns - p->spin_ns < p->yield_ns) {
        ctx->counters.yields++;
        sched_yield();
        return SFAB_INPROGRESS;
    }
    return nap(ctx, op, left_ns < p->nap_ns ? left_ns : p->nap_ns);
}
