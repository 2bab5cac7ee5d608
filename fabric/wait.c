/* wait.c - waiting: looking at everything that may end an operation, and moving all else on meanwhile.
 *
 * The first spin is a loop over the watched word with no clock, no system call and no function call in
 * it: on shared memory a barrier ends there. All else is in the slow loop, which looks at the clock,
 * at completions, at who is gone, and at every other operation of the context; how it gives way between
 * two looks is the runtime's affair (ladder.c). */
#include "fabric/cpu.h"
#include "fabric/status.h"
#include "fabric/suspect.h"

#include <errno.h>

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

static int timed_out(struct sfab_op *op, int64_t timeout_ns)
{
    char why[SFAB_ERR_TEXT_BYTES - 128];

    op->timeout_ns = timeout_ns;
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
    uint64_t start = ctx->rt->now_ns(ctx), waited = 0;
    int32_t told = -2;
    int rc;

    ctx->counters.slow_waits++;
    for (;;) {
        rc = look(ctx, op);
        if (rc != SFAB_INPROGRESS)
            break;
        if (op->waits_for != told)
            sfab_status_waits(ctx, told = op->waits_for);
        waited = ctx->rt->now_ns(ctx) - start;
        sfab_suspect_look(ctx, start, start + waited);
        if (timeout_ns >= 0 && waited >= (uint64_t)timeout_ns) {
            ctx->counters.wait_ns += waited;
            rc = timed_out(op, timeout_ns);
            sfab_status_computes(ctx);
            return rc;
        }
        rc = ctx->rt->relax(ctx, op, waited,
                            timeout_ns < 0 ? UINT64_MAX : (uint64_t)timeout_ns - waited);
        if (rc != SFAB_INPROGRESS)
            break;
    }
    ctx->counters.wait_ns += ctx->rt->now_ns(ctx) - start;
    sfab_status_computes(ctx);
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
    uint64_t now = ctx->rt->now_ns(ctx);

    if (*since_ns == 0)
        *since_ns = now;
    uint64_t waited = now - *since_ns;
    if (timeout_ns >= 0 && waited >= (uint64_t)timeout_ns)
        return -ETIMEDOUT;
    sfab_suspect_look(ctx, *since_ns, now);
    int rc = sfab_ctx_progress(ctx, NULL);
    if (rc == 0)
        ctx->rt->relax(ctx, NULL, waited,
                       timeout_ns < 0 ? UINT64_MAX : (uint64_t)timeout_ns - waited);
    return rc;
}
