/* barrier.c - the barrier: nobody leaves early, values are right, the late are named. */
#include "tests/conformance/suite.h"

#include <errno.h>
#include <string.h>
#include <time.h>

static void nap_us(long us)
{
    struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

    nanosleep(&t, NULL);
}

/* A rank that is late by a random time marks its word just before it enters: whoever has left the
 * barrier must find the mark. */
static void nobody_leaves_early(struct sfab_check *c)
{
    struct sfab_shared s;
    uint64_t state = 12345;

    sfab_shared_open(c, 128, SFAB_REMOTE_READ, &s);
    _Atomic uint64_t *mark = (_Atomic uint64_t *)(void *)s.bytes;
    for (uint64_t round = 1; round <= 60; round++) {
        int late = (int)(sfab_random(&state) % (uint64_t)c->size);
        long delay_us = (long)(sfab_random(&state) % 1500);

        if (c->rank == late)
            nap_us(delay_us);
        atomic_store_explicit(mark, round, memory_order_release);
        CHECK_OK(c, sfab_barrier(c->world, PATIENCE_NS));
        CHECK_OK(c, sfab_get(s.mem, 64, s.of[late], 0, 8));
        CHECK_OK(c, sfab_flush(c->ctx, late, PATIENCE_NS));
        CHECK(c, *(uint64_t *)(void *)(s.bytes + 64) >= round);
    }
    sfab_shared_close(c, &s);
}

static uint64_t expected(sfab_reduce reduce, int size, unsigned word, uint64_t round)
{
    uint64_t result = 0;

    for (int rank = 0; rank < size; rank++) {
        uint64_t state = round * 1000003 + (uint64_t)rank * 101 + word + 1;
        uint64_t value = sfab_random(&state);

        if (rank == 0)
            result = value;
        else if (reduce == SFAB_AND)
            result &= value;
        else if (reduce == SFAB_OR)
            result |= value;
        else if (reduce == SFAB_MIN)
            result = value < result ? value : result;
        else if (reduce == SFAB_MAX)
            result = value > result ? value : result;
        else
            result += value;
    }
    return result;
}

static void reductions(struct sfab_check *c)
{
    for (uint64_t round = 1; round <= 5; round++)
        for (int reduce = SFAB_AND; reduce <= SFAB_SUM; reduce++)
            for (unsigned count = 1; count <= SFAB_REDUCE_WORDS_MAX; count++) {
                uint64_t words[SFAB_REDUCE_WORDS_MAX + 1] = {0};
                int wrong = 0;

                for (unsigned w = 0; w < count; w++) {
                    uint64_t state = round * 1000003 + (uint64_t)c->rank * 101 + w + 1;
                    words[w] = sfab_random(&state);
                }
                words[count] = 0xfeed;
                CHECK_OK(c, sfab_barrier_reduce(c->world, (sfab_reduce)reduce, words, count,
                                                PATIENCE_NS));
                for (unsigned w = 0; w < count; w++)
                    wrong += words[w] != expected((sfab_reduce)reduce, c->size, w, round);
                CHECK(c, wrong == 0 && words[count] == 0xfeed);
            }
}

static void split_phase(struct sfab_check *c)
{
    uint64_t words[2] = {(uint64_t)c->rank, 1};
    uint64_t before = sfab_barrier_episode(c->world);
    sfab_op *op = NULL, *second = NULL;

    CHECK_OK(c, sfab_barrier_start(c->world, &op));
    CHECK_RC(c, -EBUSY, sfab_barrier_start(c->world, &second));
    CHECK_RC(c, -EBUSY, sfab_barrier(c->world, 0));
    CHECK(c, sfab_barrier_episode(c->world) == before + 1);
    for (int rc = SFAB_INPROGRESS; rc == SFAB_INPROGRESS;) {
        rc = sfab_op_test(op);
        CHECK(c, rc == 0 || rc == SFAB_INPROGRESS);
    }
    CHECK_OK(c, sfab_barrier_reduce_start(c->world, SFAB_SUM, words, 2, &op));
    CHECK_OK(c, sfab_op_wait(op, PATIENCE_NS));
    CHECK(c, words[0] == (uint64_t)(c->size * (c->size - 1) / 2) && words[1] == (uint64_t)c->size);
}

/* One that cancels still does its part: the others get through, and so does its next episode. */
static void cancelled(struct sfab_check *c)
{
    uint64_t words[1] = {5};
    sfab_op *op = NULL;

    CHECK_OK(c, sfab_barrier_reduce_start(c->world, SFAB_SUM, words, 1, &op));
    if (c->rank == 0) {
        CHECK_OK(c, sfab_op_cancel(op));
        CHECK_RC(c, -EINVAL, sfab_op_test(op));
        while (sfab_barrier_start(c->world, &op) == -EBUSY)
            CHECK_OK(c, sfab_progress(c->ctx));
        CHECK_OK(c, sfab_op_wait(op, PATIENCE_NS));
    } else {
        CHECK_OK(c, sfab_op_wait(op, PATIENCE_NS));
        CHECK(c, words[0] == (uint64_t)(5 * c->size));
        CHECK_OK(c, sfab_barrier(c->world, PATIENCE_NS));
    }
}

/* The last rank does not come: everybody else is told exactly that, and may go on waiting. */
static void the_late_are_named(struct sfab_check *c)
{
    struct sfab_shared s;
    int late_rank = c->size - 1;
    uint64_t episode = sfab_barrier_episode(c->world);

    if (c->size == 1)
        return;
    sfab_shared_open(c, 64, SFAB_REMOTE_WRITE | SFAB_REMOTE_ATOMIC, &s);
    episode = sfab_barrier_episode(c->world);
    if (c->rank == late_rank) {
        /* Until all the others have been told: they count themselves off. */
        CHECK_OK(c, sfab_wait_u64(s.mem, 0, (uint64_t)c->size - 1, SFAB_ALL_RANKS, PATIENCE_NS));
    } else {
        char text[1024], want[64];
        sfab_late late[4];
        int count = -1;

        CHECK_RC(c, -ETIMEDOUT, sfab_barrier(c->world, 300000000));
        sfab_last_error(c->ctx, text, sizeof text);
        snprintf(want, sizeof want, "rank %d (", late_rank);
        if (strstr(text, want) == NULL)
            fprintf(stderr, "rank %d: %s\n", c->rank, text);
        CHECK(c, strstr(text, want) != NULL);
        /* The others may have been late themselves at that moment; by now they are not. */
        for (int i = 0; i < 100 && count != 1; i++)
            CHECK_OK(c, sfab_barrier_late(c->world, late, 4, &count));
        CHECK(c, count == 1 && late[0].rank == late_rank && late[0].episode_known &&
                     late[0].last_episode == episode && late[0].host[0] != '\0');
        CHECK_OK(c, sfab_fetch_add(s.of[late_rank], 0, 1, NULL));
        CHECK_OK(c, sfab_flush(c->ctx, late_rank, PATIENCE_NS));
    }
    CHECK_OK(c, sfab_barrier(c->world, PATIENCE_NS)); /* the same episode for all */
    CHECK(c, sfab_barrier_episode(c->world) == episode + 1);
    sfab_shared_close(c, &s);
}

/* Other operations of the context move on while a barrier is waited for. */
static void waiting_moves_the_rest_on(struct sfab_check *c)
{
    uint64_t words[1] = {1};
    struct sfab_shared s;
    sfab_op *op = NULL;

    sfab_shared_open(c, 64, SFAB_REMOTE_WRITE, &s);
    CHECK_OK(c, sfab_barrier_reduce_start(c->world, SFAB_SUM, words, 1, &op));
    /* Waits for its neighbour's word, which comes only when the neighbour is through the barrier. */
    if (c->rank % 2 == 1) {
        CHECK_OK(c, sfab_op_wait(op, PATIENCE_NS));
        CHECK_OK(c, sfab_put_u64(s.of[c->rank - 1], 0, 9));
    } else {
        if (c->rank + 1 < c->size)
            CHECK_OK(c, sfab_wait_u64(s.mem, 0, 9, c->rank + 1, PATIENCE_NS));
        CHECK_OK(c, sfab_op_wait(op, PATIENCE_NS));
    }
    CHECK(c, words[0] == (uint64_t)c->size);
    sfab_shared_close(c, &s);
}

/* Different collectives in one episode: both sides are named on every rank. The group is done for. */
static void mismatch(struct sfab_check *c)
{
    uint64_t words[3] = {1, 2, 3};
    char text[1024], odd[32];

    if (c->size == 1)
        return;
    snprintf(odd, sizeof odd, "rank %d (", c->size / 2);
    int rc = c->rank == c->size / 2 ? sfab_barrier_reduce(c->world, SFAB_MAX, words, 3, PATIENCE_NS)
                                    : sfab_barrier(c->world, PATIENCE_NS);
    sfab_last_error(c->ctx, text, sizeof text);
    CHECK(c, rc == SFAB_ERR_MISMATCH);
    if (strstr(text, "a barrier with MAX of 3 words") == NULL || strstr(text, odd) == NULL)
        fprintf(stderr, "rank %d: %s\n", c->rank, text);
    CHECK(c, strstr(text, "a barrier with MAX of 3 words") != NULL && strstr(text, odd) != NULL);
    CHECK(c, words[0] == 1 && words[1] == 2 && words[2] == 3);
    CHECK_RC(c, SFAB_ERR_MISMATCH, sfab_barrier(c->world, 0));
}

const struct sfab_conformance_check sfab_barrier_checks[] = {
    {"nobody leaves a barrier before the last has come", nobody_leaves_early},
    {"AND, OR, MIN, MAX and SUM of 1 to 8 words are exact on every rank", reductions},
    {"split phase; a second start is refused", split_phase},
    {"one that cancels leaves nobody behind", cancelled},
    {"a barrier that times out names who is missing, and goes on", the_late_are_named},
    {"waiting for one thing moves everything else on", waiting_moves_the_rest_on},
    {NULL, NULL}};

const struct sfab_conformance_check sfab_mismatch_checks[] = {
    {"different collectives in one episode are named on every rank", mismatch}, {NULL, NULL}};
