/* work.c - one turn of each kind of work. Every turn ends with an operation of the whole group, whose
 * outcome the members agree on; one-sided operations before it may fail on some members and not on
 * others, so a failure there is said and the turn goes on. */
#include "tests/faults/victim.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#define SIGNAL_OFFSET(rank) ((uint64_t)(rank)*64)
#define COUNTER_OFFSET      (VICTIM_RANKS_MAX * 64)
#define BLOCK_OFFSET(rank)  (8192 + (uint64_t)(rank)*VICTIM_BLOCK_BYTES)
#define SOURCE_OFFSET       BLOCK_OFFSET(VICTIM_RANKS_MAX)
#define MEM_BYTES           (SOURCE_OFFSET + VICTIM_BLOCK_BYTES)
#define ENDING_TURNS        20 /* in the last group */
#define AGREE_EACH_TURNS    16 /* whether to end */

extern volatile sig_atomic_t victim_told_to_stop;

static int64_t timeout_ns(const struct victim *v)
{
    return v->timeout_ms < 0 ? -1 : v->timeout_ms * INT64_C(1000000);
}

/* The member that is `by` places on from this one: its rank in the job. */
static int neighbour(const struct victim *v, long by)
{
    int n = sfab_group_size(v->group), i = sfab_group_rank(v->group) + (int)(by % n);

    return sfab_group_member_rank(v->group, (i % n + n) % n);
}

static void note(struct victim *v, int rc)
{
    if (rc != 0)
        victim_say_code(v, "op_failed", rc);
}

/* ---- operations of the group ---- */

static int barrier(struct victim *v)
{
    int rc;

    while ((rc = CALL(v, sfab_barrier(v->group, timeout_ns(v)))) == -ETIMEDOUT)
        victim_say_late(v);
    return rc;
}

static int sum(struct victim *v)
{
    uint64_t words[3], want = 0;
    int rc;

    for (int i = 0; i < sfab_group_size(v->group); i++)
        want += (uint64_t)sfab_group_member_rank(v->group, i) + 7;
    do {
        for (uint64_t i = 0; i < 3; i++)
            words[i] = (uint64_t)sfab_rank(v->ctx) + 7 + i * (uint64_t)v->turn;
        rc = CALL(v, sfab_barrier_reduce(v->group, SFAB_SUM, words, 3, timeout_ns(v)));
        if (rc == -ETIMEDOUT)
            victim_say_late(v);
    } while (rc == -ETIMEDOUT);
    uint64_t each = (uint64_t)v->turn * (uint64_t)sfab_group_size(v->group);
    if (rc == 0 && (words[0] != want || words[1] != want + each || words[2] != want + 2 * each))
        victim_say_wrong(v, "a sum over the group does not count each member once");
    return rc;
}

static int agree_to_stop(struct victim *v)
{
    uint64_t word;
    int rc;

    do {
        word = victim_told_to_stop != 0;
        rc = CALL(v, sfab_barrier_reduce(v->group, SFAB_OR, &word, 1, timeout_ns(v)));
        if (rc == -ETIMEDOUT)
            victim_say_late(v);
    } while (rc == -ETIMEDOUT);
    v->stop = rc == 0 && word != 0;
    return rc;
}

static int split(struct victim *v)
{
    sfab_op *op;
    int rc = CALL(v, sfab_barrier_start(v->group, &op));

    if (rc != 0)
        return rc;
    for (int i = 0; i < 3; i++) {
        rc = CALL(v, sfab_op_test(op));
        if (rc != SFAB_INPROGRESS)
            return rc;
    }
    while ((rc = CALL(v, sfab_op_wait(op, timeout_ns(v)))) == -ETIMEDOUT)
        victim_say_late(v);
    return rc;
}

/* ---- one-sided operations ---- */

static int flush(struct victim *v, int rank)
{
    int rc;

    while ((rc = CALL(v, sfab_flush(v->ctx, rank, timeout_ns(v)))) == -ETIMEDOUT)
        victim_say_code(v, "slow", rc);
    return rc;
}

static int wait_word(struct victim *v, int from, uint64_t value)
{
    int rc;

    do {
        rc = CALL(v, sfab_wait_u64(v->mem, SIGNAL_OFFSET(from), value, from, timeout_ns(v)));
        if (rc == -ETIMEDOUT)
            victim_say_code(v, "slow", rc);
    } while (rc == -ETIMEDOUT);
    return rc;
}

/* A block and a signal to the right; the same from the left. */
static int put(struct victim *v)
{
    int right = neighbour(v, 1), left = neighbour(v, -1), me = sfab_rank(v->ctx), rc;
    uint64_t value = (uint64_t)v->generation << 32 | (uint64_t)v->turn;
    uint8_t *base = sfab_mem_addr(v->mem);

    memset(base + SOURCE_OFFSET, (int)(v->turn & 255), VICTIM_BLOCK_BYTES);
    rc = CALL(v, sfab_put_signal(v->of[right], BLOCK_OFFSET(me), v->mem, SOURCE_OFFSET,
                                 VICTIM_BLOCK_BYTES, v->of[right], SIGNAL_OFFSET(me), value));
    note(v, rc);
    rc = wait_word(v, left, value);
    note(v, rc);
    for (size_t i = 0; rc == 0 && i < VICTIM_BLOCK_BYTES; i++)
        if (base[BLOCK_OFFSET(left) + i] != (v->turn & 255)) {
            victim_say_wrong(v, "a signal is here and its data is not");
            break;
        }
    note(v, flush(v, right));
    return barrier(v);
}

static int atomic(struct victim *v)
{
    static uint64_t before[VICTIM_RANKS_MAX]; /* static: a failed operation may still write it */
    static uint64_t result;
    int rank = neighbour(v, v->turn);

    int rc = CALL(v, sfab_fetch_add(v->of[rank], COUNTER_OFFSET, 1, &result));
    note(v, rc);
    if (rc == 0 && (rc = flush(v, rank)) != 0)
        note(v, rc);
    if (rc == 0 && result < before[rank])
        victim_say_wrong(v, "a counter went back");
    if (rc == 0)
        before[rank] = result + 1;
    return barrier(v);
}

/* New memory, its key to all, a first put to it, and all of it away again. */
static int connect_again(struct victim *v)
{
    sfab_rmem *table[VICTIM_RANKS_MAX] = {NULL};
    int right = (sfab_group_rank(v->group) + 1) % sfab_group_size(v->group);
    sfab_mem *mem;
    int rc = CALL(v, sfab_mem_alloc(v->ctx, 4096, SFAB_REMOTE_WRITE, &mem));

    if (rc != 0) {
        note(v, rc);
        return barrier(v);
    }
    rc = CALL(v, sfab_mem_share(mem, v->group, table, -1));
    if (rc == 0) {
        rc = CALL(v, sfab_put_u64(table[right], 64, (uint64_t)v->turn));
        note(v, rc);
        note(v, flush(v, sfab_group_member_rank(v->group, right)));
    } else {
        note(v, rc);
    }
    rc = barrier(v);
    for (int i = 0; i < sfab_group_size(v->group); i++)
        if (table[i] != NULL)
            sfab_rmem_close(table[i]);
    sfab_mem_free(mem);
    return rc;
}

/* ---- turns ---- */

static const struct {
    const char *name;
    int (*turn)(struct victim *v);
} kinds[] = {{"barrier", barrier}, {"reduce", sum},    {"split", split},
             {"put", put},         {"atomic", atomic}, {"connect", connect_again},
             {"shrink", barrier}}; /* shrink: victim.c leaves the group after each turn */

#define KINDS (sizeof kinds / sizeof kinds[0])

static int work(struct victim *v)
{
    if (strcmp(v->work, "mixed") == 0)
        return kinds[(size_t)v->turn % (KINDS - 1)].turn(v);
    for (size_t i = 0; i < KINDS; i++)
        if (strcmp(v->work, kinds[i].name) == 0)
            return kinds[i].turn(v);
    victim_say_wrong(v, "there is no such work");
    return -EINVAL;
}

int victim_share(struct victim *v)
{
    sfab_rmem *table[VICTIM_RANKS_MAX];
    uint64_t all;
    int rc = 0;

    if (v->mem == NULL)
        rc = CALL(v, sfab_mem_alloc(v->ctx, MEM_BYTES,
                                    SFAB_REMOTE_READ | SFAB_REMOTE_WRITE | SFAB_REMOTE_ATOMIC,
                                    &v->mem));
    if (rc == 0)
        rc = CALL(v, sfab_mem_share(v->mem, v->group, table, -1));
    for (int i = 0; rc == 0 && i < sfab_group_size(v->group); i++)
        v->of[sfab_group_member_rank(v->group, i)] = table[i];
    note(v, rc);
    all = rc == 0;
    do {
        rc = CALL(v, sfab_barrier_reduce(v->group, SFAB_MIN, &all, 1, timeout_ns(v)));
        if (rc == -ETIMEDOUT)
            victim_say_late(v);
    } while (rc == -ETIMEDOUT);
    v->done += rc == 0;
    if (rc == 0 && all == 0 && strcmp(v->work, "shrink") != 0)
        v->work = "barrier";
    return rc;
}

int victim_turn(struct victim *v)
{
    int rc;

    if (++v->turn == v->compute_turn) {
        victim_say("computes");
        victim_compute(v->compute_ms);
    }
    if (v->turn % AGREE_EACH_TURNS == 0)
        rc = agree_to_stop(v);
    else
        rc = work(v);
    if (rc == 0)
        v->done++;
    if (rc == 0 && v->dead > 0 && sfab_group_size(v->group) <= sfab_size(v->ctx) - v->dead)
        v->stop = ++v->settled == ENDING_TURNS;
    if (rc == 0 && v->turns > 0 && v->turn >= v->turns)
        v->stop = true;
    return rc;
}

int victim_shrink(struct victim *v)
{
    sfab_group *before = v->group;
    int rc;

    while ((rc = CALL(v, sfab_group_shrink(before, timeout_ns(v), &v->group))) == -ETIMEDOUT)
        victim_say_code(v, "slow", rc);
    if (rc != 0)
        return rc;
    if (before != sfab_world(v->ctx) && (rc = CALL(v, sfab_group_free(before))) != 0)
        victim_say_wrong(v, "a group that is left cannot be freed");
    v->generation++;
    v->done = 0;
    if (sfab_group_member_rank(v->group, sfab_group_rank(v->group)) != sfab_rank(v->ctx))
        victim_say_wrong(v, "the new group has this rank at another's place");
    victim_say_group(v);
    return 0;
}
