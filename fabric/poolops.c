/* poolops.c - flushes, and waits for a local word: operations from the context's pool. */
#include "fabric/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void pool_release(struct sfab_op *op)
{
    (void)op; /* state FREE is what makes the slot free */
}

static struct sfab_pool_op *take(struct sfab_ctx *ctx, const struct sfab_op_class *class)
{
    for (uint32_t i = 0; i < SFAB_OP_POOL; i++)
        if (ctx->pool[i].op.state == SFAB_OP_FREE) {
            ctx->pool[i] = (struct sfab_pool_op){.op = {.class = class, .ctx = ctx}};
            return &ctx->pool[i];
        }
    sfab_ctx_fail(
        ctx, -EBUSY,
        "rank %u (%s): %d flushes and word waits are outstanding, more cannot be: wait for "
        "some first",
        ctx->rank, ctx->host, SFAB_OP_POOL);
    return NULL;
}

/* ---- flush ------------------------------------------------------------------------------- */

/* 0, -EAGAIN or a failure, for one endpoint slot of the rank. */
static int flush_one(struct sfab_ctx *ctx, uint32_t tp, uint32_t rank)
{
    struct sfab_ep *ep = atomic_load_explicit(&ctx->eps[tp][rank], memory_order_acquire);

    if (ep == NULL)
        return 0;
    uint32_t state = atomic_load_explicit(&ep->state, memory_order_acquire);
    if (state == SFAB_EP_IDLE || state == SFAB_EP_CONNECTING)
        return 0; /* nothing can have been sent */
    int rc = ep->ops->flush(ep);
    return rc == 0 || rc == -EAGAIN ? rc : sfab_peer_failed(ctx, ep, rc);
}

static int flush_rank(struct sfab_ctx *ctx, uint32_t rank)
{
    for (uint32_t tp = 0; tp < ctx->tp_count; tp++) {
        int rc = flush_one(ctx, tp, rank);

        if (rc != 0)
            return rc;
    }
    return 0;
}

static int flush_step(struct sfab_op *op)
{
    struct sfab_pool_op *flush = (struct sfab_pool_op *)op;
    uint32_t end = flush->rank == SFAB_ALL_RANKS ? op->ctx->size : (uint32_t)flush->rank + 1;

    for (; flush->next_rank < end; flush->next_rank++) {
        int rc = flush_rank(op->ctx, flush->next_rank);

        if (rc != 0)
            return rc == -EAGAIN ? SFAB_INPROGRESS : rc;
    }
    return 0;
}

static int flush_fault(struct sfab_op *op)
{
    struct sfab_pool_op *flush = (struct sfab_pool_op *)op;

    /* The rank that it is at is the one it waits for. */
    return sfab_ctx_check_present(op->ctx, flush->next_rank, "sfab_flush");
}

static void flush_explain(struct sfab_op *op, char *text, size_t cap)
{
    struct sfab_pool_op *flush = (struct sfab_pool_op *)op;
    char name[96];

    snprintf(text, cap, "operations to %s are not complete; it answers slowly or not at all",
             sfab_ctx_peer_name(op->ctx, flush->next_rank, name, sizeof name));
}

static const struct sfab_op_class flush_class = {.name = "sfab_flush",
                                                 .step = flush_step,
                                                 .fault = flush_fault,
                                                 .explain = flush_explain,
                                                 .release = pool_release};

static int flush_begin(struct sfab_ctx *ctx, int rank, bool listed, struct sfab_op **out)
{
    if (!sfab_ctx_ok(ctx))
        return -EINVAL;
    if (rank != SFAB_ALL_RANKS && (rank < 0 || (uint32_t)rank >= ctx->size))
        return sfab_ctx_fail(ctx, -EINVAL, "there is no rank %d in a job of %u", rank, ctx->size);
    struct sfab_pool_op *flush = take(ctx, &flush_class);
    if (flush == NULL)
        return -EBUSY;
    flush->rank = rank;
    flush->next_rank = rank == SFAB_ALL_RANKS ? 0 : (uint32_t)rank;
    ctx->counters.flushes++;
    sfab_op_begin(&flush->op, listed);
    flush->op.waits_for = rank;
    *out = &flush->op;
    return 0;
}

int sfab_flush_start(sfab_ctx *ctx, int rank, sfab_op **op)
{
    return op != NULL ? flush_begin(ctx, rank, true, op) : -EINVAL;
}

int sfab_flush(sfab_ctx *ctx, int rank, int64_t timeout_ns)
{
    struct sfab_op *op;
    int rc = flush_begin(ctx, rank, false, &op);

    if (rc != 0)
        return rc;
    rc = sfab_op_drive(op, timeout_ns);
    if (rc == -ETIMEDOUT)
        sfab_op_end(op);
    return rc;
}

/* ---- a local word ------------------------------------------------------------------------ */

static int word_step(struct sfab_op *op)
{
    /* WORD-ACQ: pairs with the writer's release (WORD-REL), or with the order that a network
     * promises between data and signal. */
    return atomic_load_explicit(op->watch, memory_order_acquire) >= op->watch_value
               ? 0
               : SFAB_INPROGRESS;
}

static int word_fault(struct sfab_op *op)
{
    struct sfab_pool_op *word = (struct sfab_pool_op *)op;
    int rc = 0;

    if (word->rank != SFAB_ALL_RANKS)
        return sfab_ctx_check_present(op->ctx, (uint32_t)word->rank, "sfab_wait_u64");
    for (uint32_t rank = 0; rc == 0 && rank < op->ctx->size; rank++)
        if (rank != op->ctx->rank)
            rc = sfab_ctx_check_present(op->ctx, rank, "sfab_wait_u64 (from any rank)");
    return rc;
}

static void word_explain(struct sfab_op *op, char *text, size_t cap)
{
    struct sfab_pool_op *word = (struct sfab_pool_op *)op;
    char name[96] = "any rank";

    if (word->rank != SFAB_ALL_RANKS)
        sfab_ctx_peer_name(op->ctx, (uint32_t)word->rank, name, sizeof name);
    snprintf(text, cap,
             "the word at offset %llu is %llu and was to reach %llu; it was expected from %s",
             (unsigned long long)word->offset_bytes,
             (unsigned long long)atomic_load_explicit(op->watch, memory_order_relaxed),
             (unsigned long long)op->watch_value, name);
}

static const struct sfab_op_class word_class = {.name = "sfab_wait_u64",
                                                .step = word_step,
                                                .fault = word_fault,
                                                .explain = word_explain,
                                                .release = pool_release};

static int check_word(const struct sfab_mem *mem, uint64_t offset, int from)
{
    if (!sfab_mem_ok(mem))
        return -EINVAL;
    if (offset > mem->seg.len_bytes || mem->seg.len_bytes - offset < sizeof(uint64_t))
        return sfab_ctx_fail(
            mem->ctx, -ERANGE,
            "rank %u (%s): a word at offset %llu does not lie in the local memory of "
            "%zu bytes",
            mem->ctx->rank, mem->ctx->host, (unsigned long long)offset, mem->seg.len_bytes);
    if (((uintptr_t)mem->seg.addr + offset) % sizeof(uint64_t) != 0)
        return sfab_ctx_fail(mem->ctx, -EINVAL, "a word at offset %llu is not aligned to 8 bytes",
                             (unsigned long long)offset);
    if (from != SFAB_ALL_RANKS && (from < 0 || (uint32_t)from >= mem->ctx->size))
        return sfab_ctx_fail(mem->ctx, -EINVAL, "there is no rank %d in a job of %u", from,
                             mem->ctx->size);
    return 0;
}

static const _Atomic uint64_t *word_of(const struct sfab_mem *mem, uint64_t offset)
{
    return (const _Atomic uint64_t *)(const void *)((const char *)mem->seg.addr + offset);
}

static int word_begin(struct sfab_mem *mem, uint64_t offset, uint64_t value, int from, bool listed,
                      struct sfab_op **out)
{
    int rc = check_word(mem, offset, from);

    if (rc != 0)
        return rc;
    struct sfab_pool_op *word = take(mem->ctx, &word_class);
    if (word == NULL)
        return -EBUSY;
    word->rank = from;
    word->offset_bytes = offset;
    sfab_op_begin(&word->op, listed);
    word->op.watch = word_of(mem, offset);
    word->op.waits_for = from;
    word->op.watch_value = value;
    *out = &word->op;
    return 0;
}

int sfab_wait_u64_start(sfab_mem *mem, uint64_t offset_bytes, uint64_t value, int from,
                        sfab_op **op)
{
    return op != NULL ? word_begin(mem, offset_bytes, value, from, true, op) : -EINVAL;
}

int sfab_wait_u64(sfab_mem *mem, uint64_t offset_bytes, uint64_t value, int from,
                  int64_t timeout_ns)
{
    struct sfab_op *op;
    int rc = word_begin(mem, offset_bytes, value, from, false, &op);

    if (rc != 0)
        return rc;
    rc = sfab_op_drive(op, timeout_ns);
    if (rc == -ETIMEDOUT)
        sfab_op_end(op);
    return rc;
}

int sfab_load_u64(const sfab_mem *mem, uint64_t offset_bytes, uint64_t *value)
{
    int rc = value != NULL ? check_word(mem, offset_bytes, SFAB_ALL_RANKS) : -EINVAL;

    if (rc == 0)
        *value = atomic_load_explicit(word_of(mem, offset_bytes), memory_order_acquire);
    return rc;
}
