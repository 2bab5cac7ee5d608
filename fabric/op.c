/* op.c - the life of an operation, and the public functions on it. */
#include "fabric/op.h"
#include "fabric/cpu.h"
#include "fabric/ctx.h"

#include <errno.h>
#include <stddef.h>

void sfab_op_begin(struct sfab_op *op, bool listed)
{
    op->state = SFAB_OP_LIVE;
    op->watch = NULL;
    op->waits_for = -1;
    op->timeout_ns = 0;
    op->faults_seen = op->ctx->all_present_at;
    op->listed = false;
    if (listed)
        sfab_op_list(op);
}

void sfab_op_list(struct sfab_op *op)
{
    struct sfab_op *head = &op->ctx->ops;

    if (op->listed)
        return;
    op->listed = true;
    op->prev = head->prev;
    op->next = head;
    head->prev->next = op;
    head->prev = op;
}

void sfab_op_end(struct sfab_op *op)
{
    if (op->listed) {
        op->prev->next = op->next;
        op->next->prev = op->prev;
        op->listed = false;
    }
    op->state = SFAB_OP_FREE;
    if (op->class->release != NULL)
        op->class->release(op);
}

/* Something changed: is everybody there after all (a connection was made), or can op still finish? */
__attribute__((noinline)) static int look_at_faults(struct sfab_op *op, uint32_t faults)
{
    int rc = sfab_ctx_all_present(op->ctx) ? 0 : op->class->fault(op);

    if (rc != 0)
        return rc;
    op->faults_seen = faults;
    return op->class->step(op); /* what is known now may have finished it */
}

int sfab_op_look(struct sfab_op *op)
{
    /* FAULT: the acquire comes before the step, so that a rank that wrote its word and then left is
     * seen to have written it. */
    uint32_t faults = atomic_load_explicit(&op->ctx->faults, memory_order_acquire);
    int rc = op->class->step(op);

    if (SFAB_LIKELY(rc != SFAB_INPROGRESS || faults == op->faults_seen))
        return rc;
    return look_at_faults(op, faults);
}

void sfab_op_step_all(struct sfab_ctx *ctx, const struct sfab_op *except)
{
    for (struct sfab_op *op = ctx->ops.next, *next; op != &ctx->ops; op = next) {
        next = op->next;
        if (op == except)
            continue;
        if (op->state == SFAB_OP_DETACHED) {
            if (sfab_op_look(op) != SFAB_INPROGRESS)
                sfab_op_end(op);
        } else {
            op->class->step(
                op); /* its own test will tell the result: a finished step stays finished */
        }
    }
}

static bool usable(const struct sfab_op *op)
{
    return op != NULL && op->state == SFAB_OP_LIVE;
}

int sfab_op_test(sfab_op *op)
{
    if (!usable(op))
        return -EINVAL;
    int rc = sfab_ctx_progress(op->ctx, op);
    if (rc < 0)
        return rc;
    rc = sfab_op_look(op);
    if (rc != SFAB_INPROGRESS)
        sfab_op_end(op);
    return rc;
}

int sfab_op_wait(sfab_op *op, int64_t timeout_ns)
{
    return usable(op) ? sfab_op_drive(op, timeout_ns) : -EINVAL;
}

int sfab_op_cancel(sfab_op *op)
{
    if (!usable(op))
        return -EINVAL;
    if (op->class->finishes_detached && sfab_op_look(op) == SFAB_INPROGRESS) {
        op->state = SFAB_OP_DETACHED;
        sfab_op_list(op);
    } else {
        sfab_op_end(op);
    }
    return 0;
}

int sfab_progress(sfab_ctx *ctx)
{
    return sfab_ctx_ok(ctx) ? sfab_ctx_progress(ctx, NULL) : -EINVAL;
}
