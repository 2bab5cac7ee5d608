/* program.c - see program.h. */
#include "tests/sim/program.h"
#include "collectives/world.h"
#include "fabric/ctx.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DATA_BYTES = 96, ABORT_CODE = -77 };
/* In each rank's memory: a counter, a word to swap, what it sends by parity of the step; then for each
 * sender, whose writes may still be on their way after its death, its signal and its data by parity. */
enum {
    AT_COUNTER = 0,
    AT_SWAP = 8,
    AT_SOURCE = 64,
    AT_SENDERS = AT_SOURCE + 2 * DATA_BYTES,
    SENDER_BYTES = 64 + 2 * DATA_BYTES,
};

enum step_kind { BARRIER, SPLIT, REDUCE, REDUCE_SPLIT, RING, ATOMIC, IMPATIENT, KINDS };

struct me {
    uint32_t rank;
    const struct plan *plan;
    struct oracle *oracle;
    sfab_ctx *ctx;
    sfab_group *group;
    sfab_mem *mem;
    sfab_rmem **of; /* by rank; NULL: not shared */
    bool shared;
    uint64_t step;
};

static uint64_t hash(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t x = a * UINT64_C(0x9e3779b97f4a7c15) ^ b * UINT64_C(0xc2b2ae3d27d4eb4f) ^
                 c * UINT64_C(0x165667b19e3779f9);

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static void compute(struct me *me, uint64_t salt)
{
    uint64_t luck = hash(me->plan->seed + me->rank, me->step, salt);

    if (luck % 100 < me->plan->slow_pct)
        sim_compute(hash(luck, 1, 2) % (me->plan->slow_ns + 1));
    else if (luck % 3 == 0)
        sim_compute(luck / 128 % 20000);
}

static int told(struct me *me, int rc)
{
    char text[1024];

    if (rc == 0)
        return 0;
    sfab_last_error(me->ctx, text, sizeof text);
    sim_trace(sim_current(), "rank %u, step %llu: %d, %s", me->rank, (unsigned long long)me->step,
              rc, text);
    oracle_error(me->oracle, me->rank, rc, text);
    if (rc != SFAB_ERR_PEER_DEAD && rc != SFAB_ERR_PROVIDER && rc != SFAB_ERR_STALE &&
        rc != ABORT_CODE)
        sim_wrong(sim_current(), "rank %u: an unexpected error %d: %s", me->rank, rc, text);
    return rc;
}

static int left(struct me *me, int rc, const uint64_t *words, unsigned count)
{
    oracle_leaves(me->oracle, me->rank, me->group, rc, words, count);
    return told(me, rc);
}

static int barrier(struct me *me)
{
    oracle_enters(me->oracle, me->rank, me->group, SFAB_SUM, NULL, 0);
    return left(me, sfab_barrier(me->group, -1), NULL, 0);
}

static int impatient(struct me *me)
{
    int rc, tries = 0;

    oracle_enters(me->oracle, me->rank, me->group, SFAB_SUM, NULL, 0);
    while ((rc = sfab_barrier(me->group, tries < 3 ? 3000 : 300000000)) == -ETIMEDOUT)
        tries++;
    return left(me, rc, NULL, 0);
}

static int split(struct me *me)
{
    sfab_op *op;

    oracle_enters(me->oracle, me->rank, me->group, SFAB_SUM, NULL, 0);
    int rc = sfab_barrier_start(me->group, &op);
    if (rc != 0)
        return left(me, rc, NULL, 0);
    compute(me, 3);
    for (int i = 0; i < 3 && (rc = sfab_op_test(op)) == SFAB_INPROGRESS; i++)
        sim_compute(300);
    if (rc == SFAB_INPROGRESS)
        rc = sfab_op_wait(op, -1);
    return left(me, rc, NULL, 0);
}

static unsigned contribution(const struct me *me, uint64_t *words, sfab_reduce *reduce)
{
    uint64_t luck = hash(me->plan->seed, me->step, 11);
    unsigned count = 1 + (unsigned)(luck % 8);

    *reduce = (sfab_reduce)(luck / 8 % 5);
    for (unsigned w = 0; w < count; w++)
        words[w] = hash(me->plan->seed + me->rank, me->step, 20 + w);
    return count;
}

static int reduce(struct me *me, bool in_two)
{
    uint64_t words[SFAB_REDUCE_WORDS_MAX];
    sfab_reduce how;
    unsigned count = contribution(me, words, &how);
    sfab_op *op;
    int rc;

    oracle_enters(me->oracle, me->rank, me->group, how, words, count);
    if (!in_two) {
        rc = sfab_barrier_reduce(me->group, how, words, count, -1);
    } else {
        rc = sfab_barrier_reduce_start(me->group, how, words, count, &op);
        if (rc == 0) {
            compute(me, 4);
            rc = sfab_op_wait(op, -1);
        }
    }
    return left(me, rc, words, count);
}

static uint64_t pattern(const struct me *me, uint32_t from, uint64_t step, uint32_t i)
{
    return hash(me->plan->seed + from, step, 100 + i);
}

static uint32_t beside(const struct me *me, int by)
{
    int size = sfab_group_size(me->group), mine = sfab_group_rank(me->group);

    return (uint32_t)sfab_group_member_rank(me->group, (mine + by + size) % size);
}

static uint64_t signal_of(uint32_t sender)
{
    return AT_SENDERS + sender * (uint64_t)SENDER_BYTES;
}

static uint64_t data_of(const struct me *me, uint32_t sender)
{
    return signal_of(sender) + 64 + (me->step & 1) * DATA_BYTES;
}

static void check_data(struct me *me, uint32_t from)
{
    const uint64_t *data =
        (const uint64_t *)(const void *)((char *)sfab_mem_addr(me->mem) + data_of(me, from));

    for (uint32_t i = 0; i < DATA_BYTES / 8; i++)
        if (data[i] != pattern(me, from, me->step, i)) {
            sim_wrong(sim_current(),
                      "every put before a put_signal is visible at the signal: rank %u sees the "
                      "signal of rank %u in step %llu, and old data in word %u",
                      me->rank, from, (unsigned long long)me->step, i);
            return;
        }
}

/* Data and a signal to the next member; the one before does the same here. */
static int ring(struct me *me)
{
    uint32_t to = beside(me, 1), from = beside(me, -1);
    uint64_t parity = me->step & 1, offset = AT_SOURCE + parity * DATA_BYTES, seen = 0;
    uint64_t *source = (uint64_t *)(void *)((char *)sfab_mem_addr(me->mem) + offset);

    for (uint32_t i = 0; i < DATA_BYTES / 8; i++)
        source[i] = pattern(me, me->rank, me->step, i);
    /* The first half by itself, the rest with the signal. */
    uint64_t at = data_of(me, me->rank);
    int rc = sfab_put(me->of[to], at, me->mem, offset, DATA_BYTES / 2);
    if (rc == 0)
        rc = sfab_put_signal(me->of[to], at + DATA_BYTES / 2, me->mem, offset + DATA_BYTES / 2,
                             DATA_BYTES / 2, me->of[to], signal_of(me->rank), me->step);
    if (told(me, rc) == 0) {
        rc = sfab_wait_u64(me->mem, signal_of(from), me->step, (int)from, 100000000);
        if (rc == 0)
            check_data(me, from);
        else if (rc != -ETIMEDOUT)
            told(me, rc);
        rc = sfab_flush(me->ctx, (int)to, -1);
        if (told(me, rc) == 0)
            oracle_flushed(me->oracle, me->rank, me->step);
    }
    rc = barrier(me);
    if (rc == 0 && oracle_was_flushed(me->oracle, from, me->step)) {
        sfab_load_u64(me->mem, signal_of(from), &seen);
        if (seen < me->step)
            sim_wrong(sim_current(),
                      "what was flushed before a barrier is there after it: rank %u "
                      "does not see the signal of rank %u in step %llu",
                      me->rank, from, (unsigned long long)me->step);
        check_data(me, from);
    }
    return rc;
}

/* All add to one member's counter: every value is given once. */
static int atomics(struct me *me)
{
    uint32_t root = beside(me, -(int)sfab_group_rank(me->group));
    uint64_t ticket = UINT64_MAX, swapped = UINT64_MAX;
    int rc = sfab_fetch_add(me->of[root], AT_COUNTER, 1, &ticket);

    if (rc == 0)
        rc = sfab_compare_swap(me->of[root], AT_SWAP, me->step, me->step + me->rank, &swapped);
    if (told(me, rc) == 0 && told(me, sfab_flush(me->ctx, (int)root, -1)) == 0 &&
        (ticket == UINT64_MAX || swapped == UINT64_MAX))
        sim_wrong(sim_current(), "an atomic's result is there after the flush: not so at rank %u",
                  me->rank);
    return barrier(me);
}

/* One step. Its kind is the same on all. */
static int run_step(struct me *me)
{
    enum step_kind kind = (enum step_kind)(hash(me->plan->seed, me->step, 1) % KINDS);

    compute(me, 2);
    switch (kind) {
    case BARRIER:
        return barrier(me);
    case SPLIT:
        return split(me);
    case REDUCE:
        return reduce(me, false);
    case REDUCE_SPLIT:
        return reduce(me, true);
    case RING:
        return me->shared ? ring(me) : barrier(me);
    case ATOMIC:
        return me->shared ? atomics(me) : barrier(me);
    case IMPATIENT:
        return impatient(me);
    case KINDS:
        break;
    }
    return barrier(me);
}

/* Whether this rank is of the job no more, or the job has ended. */
static bool out(struct me *me)
{
    return sfab_ctx_ended(me->ctx, "the program") != 0;
}

/* A group of the survivors, and the step that they go on with: the largest that one of them is at. */
static int go_on(struct me *me)
{
    sfab_group *next;
    uint64_t words[2];
    int rc;

    do {
        if (out(me))
            return ABORT_CODE;
        int failed = 0;
        sfab_group_failed(me->group, NULL, 0, &failed);
        if (failed > 0)
            oracle_failed(me->oracle, me->rank, me->group);
        rc = sfab_group_shrink(me->group, -1, &next);
        if (told(me, rc) != 0)
            return rc;
        sim_trace(sim_current(), "rank %u goes on in a group of %d", me->rank,
                  sfab_group_size(next));
        oracle_group(me->oracle, me->rank, next);
        me->group = next;
        words[0] = me->step;
        words[1] = me->shared;
        words[1] = ~words[1] & 1;
        oracle_enters(me->oracle, me->rank, me->group, SFAB_MAX, words, 2);
        rc = left(me, sfab_barrier_reduce(me->group, SFAB_MAX, words, 2, -1), words, 2);
    } while (rc != 0);
    me->step = words[0] + 1;
    me->shared = words[1] == 0;
    return 0;
}

/* Shares memory, and agrees on whether all could. */
static int share(struct me *me)
{
    uint64_t good = 0;
    int rc = sfab_mem_alloc(me->ctx, signal_of((uint32_t)sfab_size(me->ctx)),
                            SFAB_REMOTE_READ | SFAB_REMOTE_WRITE | SFAB_REMOTE_ATOMIC, &me->mem);

    me->of = calloc((size_t)sfab_size(me->ctx), sizeof(sfab_rmem *));
    if (rc != 0 || me->of == NULL)
        abort();
    rc = sfab_mem_share(me->mem, sfab_world(me->ctx), me->of, -1);
    told(me, rc);
    good = rc == 0;
    oracle_enters(me->oracle, me->rank, me->group, SFAB_AND, &good, 1);
    rc = left(me, sfab_barrier_reduce(me->group, SFAB_AND, &good, 1, -1), &good, 1);
    me->shared = rc == 0 && good != 0;
    return rc;
}

static void steps(struct me *me)
{
    int rc = share(me);

    for (me->step = 1; me->step <= me->plan->steps || rc != 0;) {
        if (rc == 0) {
            if ((int64_t)me->step == me->plan->abort_step && me->rank == 0)
                sfab_abort(me->ctx, ABORT_CODE, "the plan says so");
            rc = run_step(me);
            me->step += rc == 0;
        }
        if (rc != 0 && (out(me) || (rc = go_on(me)) != 0)) {
            oracle_out(me->oracle, me->rank);
            if (!out(me))
                sim_wrong(sim_current(), "rank %u cannot go on, and nobody says why: %d", me->rank,
                          rc);
            return;
        }
    }
}

void program(uint32_t rank, void *arg)
{
    const struct plan *plan = arg;
    struct me me = {.rank = rank, .plan = plan, .oracle = plan->oracle};
    struct sfab_err err = {0};
    int rc = sfab_ctx_open(NULL, &sfab_barrier_group_class, &sim_runtime, &me.ctx, &err);

    if (rc != 0) {
        sim_trace(sim_current(), "rank %u cannot open: %s", rank, err.text);
        oracle_error(me.oracle, rank, rc, err.text);
        oracle_out(me.oracle, rank);
        return;
    }
    me.ctx->wait.first_spins = (uint32_t)(hash(plan->seed, rank, 5) % 4);
    me.group = sfab_world(me.ctx);
    oracle_group(me.oracle, rank, me.group);
    steps(&me);
    sim_trace(sim_current(), "rank %u closes", rank);
    if (sfab_ctx_close(me.ctx) == -ECONNRESET)
        oracle_out(me.oracle, rank);
    free(me.of);
}

void program_restarted(uint32_t rank, void *arg)
{
    const struct plan *plan = arg;
    struct sfab_err err = {0};
    sfab_ctx *ctx;
    int rc = sfab_ctx_open(NULL, &sfab_barrier_group_class, &sim_runtime, &ctx, &err);

    oracle_out(plan->oracle, rank);
    if (rc == 0)
        sim_wrong(sim_current(), "rank %u was started again and let into the running job", rank);
}
