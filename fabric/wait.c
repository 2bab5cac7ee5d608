/* wait.c - waiting: spin, then yield, then sleep; and moving everything on meanwhile.
 *
 * The first spin is a loop over the watched word with no clock, no system call and no function call in
 * it: on shared memory a barrier ends there. All else is in the slow loop, which looks at the clock,
 * at completions, at who is gone, and at every other operation of the context.
 *
 * How long each step of the ladder lasts depends on whether every rank of the node has a CPU of its
 * own (then spinning is free, and a wake-up from sleep costs far more than a barrier) or not (then
 * each spin keeps the awaited rank from running). */
#include "fabric/cpu.h"
#include "fabric/cpus.h"
#include "fabric/ctx.h"
#include "fabric/doorbell.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

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

int sfab_ctx_progress(struct sfab_ctx *ctx, const struct sfab_op *except)
{
    for (uint32_t i = 0; i < ctx->polled_count; i++) {
        int rc = ctx->polled[i]->ops->poll(ctx->polled[i]);

        if (SFAB_UNLIKELY(rc < 0))
            return sfab_ctx_fail(ctx, rc, "rank %u (%s): %s", ctx->rank, ctx->host,
                                 ctx->polled[i]->err.text);
    }
    if (SFAB_UNLIKELY(ctx->ops.next != &ctx->ops))
        sfab_op_step_all(ctx, except);
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
static int ladder(struct sfab_ctx *ctx, struct sfab_op *op, uint64_t waited_ns, uint64_t left_ns)
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

static int timed_out(struct sfab_op *op, int64_t timeout_ns)
{
    char why[SFAB_ERR_TEXT_BYTES - 128];

    op->class->explain(op, why, sizeof why);
    return sfab_ctx_fail(op->ctx, -ETIMEDOUT, "rank %u (%s): %s timed out after %.3f s: %s",
                         op->ctx->rank, op->ctx->host, op->class->name, (double)timeout_ns / 1e9,
                         why);
}

/* One look of the slow loop at everything that may end op. */
static int look(struct sfab_ctx *ctx, struct sfab_op *op)
{
    int rc = sfab_ctx_progress(ctx, op);

    return rc == 0 ? sfab_op_look(op) : rc;
}

__attribute__((noinline)) static int drive_slowly(struct sfab_op *op, int64_t timeout_ns)
{
    struct sfab_ctx *ctx = op->ctx;
    uint64_t start = sfab_now_ns(), waited = 0;
    int rc;

    ctx->counters.slow_waits++;
    for (;;) {
        rc = look(ctx, op);
        if (rc != SFAB_INPROGRESS)
            break;
        waited = sfab_now_ns() - start;
        if (timeout_ns >= 0 && waited >= (uint64_t)timeout_ns) {
            ctx->counters.wait_ns += waited;
            return timed_out(op, timeout_ns);
        }
        rc = ladder(ctx, op, waited, timeout_ns < 0 ? UINT64_MAX : (uint64_t)timeout_ns - waited);
        if (rc != SFAB_INPROGRESS)
            break;
    }
    ctx->counters.wait_ns += sfab_now_ns() - start;
    sfab_op_end(op);
    return rc;
}

int sfab_op_drive(struct sfab_op *op, int64_t timeout_ns)
{
    uint32_t spins = timeout_ns == 0 ? 0 : op->ctx->wait.first_spins;

    for (;;) {
        int rc = op->class->step(op);

        if (rc != SFAB_INPROGRESS) {
            sfab_op_end(op);
            return rc;
        }
        if (op->watch == NULL)
            break;
        /* Relaxed: the step that follows loads again, with acquire. */
        while (spins > 0 &&
               atomic_load_explicit(op->watch, memory_order_relaxed) < op->watch_value) {
            spins--;
            sfab_cpu_relax();
        }
        if (spins == 0)
            break;
    }
    return drive_slowly(op, timeout_ns);
}

int sfab_ctx_pause(struct sfab_ctx *ctx, uint64_t *since_ns, int64_t timeout_ns)
{
    uint64_t now = sfab_now_ns();

    if (*since_ns == 0)
        *since_ns = now;
    uint64_t waited = now - *since_ns;
    if (timeout_ns >= 0 && waited >= (uint64_t)timeout_ns)
        return -ETIMEDOUT;
    int rc = sfab_ctx_progress(ctx, NULL);
    if (rc == 0)
        ladder(ctx, NULL, waited, timeout_ns < 0 ? UINT64_MAX : (uint64_t)timeout_ns - waited);
    return rc;
}
