/* late.c - ranks of a job, one of which is late by a random time in each round: nobody may leave the
 * barrier before it has come, and a sum carried by the barrier counts everybody once.
 *
 *     sfab run -n N barrier_late [ROUNDS [SEED]]
 *
 * The late rank stores the round's number in its own word just before it enters; whoever has left reads
 * that word one-sidedly and must find it: no clock is involved. */
#include "tests/support/check.h"
#include "tests/support/job.h"

#include <stdlib.h>
#include <time.h>

struct plan {
    uint64_t rounds, seed;
};

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static void nap_us(uint64_t us)
{
    struct timespec t = {.tv_nsec = (long)us * 1000};

    nanosleep(&t, NULL);
}

static int one_round(struct sfab_check *c, sfab_mem *mem, sfab_rmem **of, uint64_t round, int late)
{
    _Atomic uint64_t *mark = sfab_mem_addr(mem);
    const uint64_t *seen = (const uint64_t *)sfab_mem_addr(mem) + 8;
    uint64_t sum = (uint64_t)c->rank + round;
    uint64_t want = (uint64_t)c->size * round + (uint64_t)(c->size * (c->size - 1) / 2);

    atomic_store_explicit(mark, round, memory_order_release);
    if (round % 3 == 0) {
        CHECK_OK(c, sfab_barrier_reduce(c->world, SFAB_SUM, &sum, 1, PATIENCE_NS));
        CHECK(c, sum == want);
    } else {
        CHECK_OK(c, sfab_barrier(c->world, PATIENCE_NS));
    }
    CHECK_OK(c, sfab_get(mem, 64, of[late], 0, 8));
    CHECK_OK(c, sfab_flush(c->ctx, late, PATIENCE_NS));
    CHECK(c, *seen >= round && *seen <= round + 1);
    return c->failures;
}

static int rank_main(sfab_ctx *ctx, void *arg)
{
    const struct plan *plan = arg;
    struct sfab_check c = {.ctx = ctx,
                           .world = sfab_world(ctx),
                           .rank = sfab_rank(ctx),
                           .size = sfab_size(ctx),
                           .name = "late"};
    sfab_rmem **of = calloc((size_t)c.size, sizeof *of);
    sfab_mem *mem = NULL;
    uint64_t state = plan->seed;

    CHECK_OK(&c, sfab_mem_alloc(ctx, 128, SFAB_REMOTE_READ, &mem));
    CHECK_OK(&c, sfab_mem_share(mem, c.world, of, PATIENCE_NS));
    for (uint64_t round = 1; round <= plan->rounds && c.failures == 0; round++) {
        int late = (int)(next_random(&state) % (uint64_t)c.size);
        uint64_t delay_us = next_random(&state) % 2000;

        if (c.rank == late)
            nap_us(delay_us);
        one_round(&c, mem, of, round, late);
    }
    CHECK_OK(&c, sfab_barrier(c.world, PATIENCE_NS));
    if (c.rank == 0 && c.failures == 0)
        printf("%d ranks, %llu rounds, seed %llu: nobody left early\n", c.size,
               (unsigned long long)plan->rounds, (unsigned long long)plan->seed);
    free(of);
    return c.failures;
}

int main(int argc, char **argv)
{
    struct plan plan = {.rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 50,
                        .seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1};

    return sfab_job_process(rank_main, &plan) == 0 ? 0 : 1;
}
