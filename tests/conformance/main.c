/* main.c - runs the conformance suite: `conformance` as one rank under `sfab run`, or
 * `conformance --threads N [SFAB_NAME=value ...]` as N threads. Rank 0 prints a line a check. */
#include "tests/conformance/suite.h"
#include "tests/support/job.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void sfab_shared_open(struct sfab_check *c, size_t len_bytes, unsigned access,
                      struct sfab_shared *shared)
{
    memset(shared, 0, sizeof *shared);
    shared->of = calloc((size_t)c->size, sizeof *shared->of);
    CHECK(c, shared->of != NULL);
    CHECK_OK(c, sfab_mem_alloc(c->ctx, len_bytes, access, &shared->mem));
    CHECK_OK(c, sfab_mem_share(shared->mem, c->world, shared->of, PATIENCE_NS));
    shared->bytes = sfab_mem_addr(shared->mem);
    CHECK_OK(c, sfab_barrier(c->world, PATIENCE_NS));
}

void sfab_shared_close(struct sfab_check *c, struct sfab_shared *shared)
{
    CHECK_OK(c, sfab_flush(c->ctx, SFAB_ALL_RANKS, PATIENCE_NS));
    CHECK_OK(c, sfab_barrier(c->world, PATIENCE_NS));
    for (int i = 0; i < c->size; i++)
        CHECK_OK(c, sfab_rmem_close(shared->of[i]));
    CHECK_OK(c, sfab_barrier(c->world, PATIENCE_NS));
    CHECK_OK(c, sfab_mem_free(shared->mem));
    free(shared->of);
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A check is failed when it failed on any rank: told by a sum, except for the last, after which the
 * group runs no barrier any more. */
static int run_check(struct sfab_check *c, const struct sfab_conformance_check *check, bool tell,
                     int *number)
{
    double start = now_s();

    c->name = check->name;
    c->failures = 0;
    check->run(c);
    uint64_t failed = (uint64_t)c->failures;
    if (tell && sfab_barrier_reduce(c->world, SFAB_SUM, &failed, 1, PATIENCE_NS) != 0)
        failed = 1;
    ++*number;
    if (c->rank == 0)
        printf("%s %d - %s (%.2f s)\n", failed == 0 ? "ok" : "not ok", *number, check->name,
               now_s() - start);
    fflush(stdout);
    return failed != 0;
}

static int rank_main(sfab_ctx *ctx, void *arg)
{
    static const struct sfab_conformance_check *const tables[] = {
        sfab_rma_checks,  sfab_atomic_checks,  sfab_refusal_checks,
        sfab_wait_checks, sfab_barrier_checks, sfab_mismatch_checks};
    struct sfab_check c = {
        .ctx = ctx, .world = sfab_world(ctx), .rank = sfab_rank(ctx), .size = sfab_size(ctx)};
    char text[256];
    int failures = 0, number = 0;

    (void)arg;
    sfab_barrier_describe(c.world, text, sizeof text);
    if (c.rank == 0)
        printf("# %d ranks; barrier: %s\n", c.size, text);
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        for (const struct sfab_conformance_check *check = tables[t]; check->name != NULL; check++)
            failures += run_check(&c, check, tables[t] != sfab_mismatch_checks, &number);
    if (c.rank == 0)
        printf("# %d checks, %d failed\n", number, failures);
    return failures;
}

int main(int argc, char **argv)
{
    int failures;

    if (argc >= 3 && strcmp(argv[1], "--threads") == 0)
        failures = sfab_job_threads(atoi(argv[2]), (const char *const *)argv + 3, rank_main, NULL);
    else
        failures = sfab_job_process(rank_main, NULL);
    return failures == 0 ? 0 : 1;
}
