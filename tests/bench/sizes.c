/* sizes.c - rank program: what a barrier costs in queue pairs and in memory, held against its formulas.
 * Run under any launcher with any SFAB_TRANSPORT and SFAB_BARRIER, and with SFAB_RADIX set;
 * tests/bench/sizes runs it for several N and radices.
 *
 *  - Network connections after barriers by dissemination of radix k among N: at most
 *    2*(k-1)*ceil(log_k N), a peer to send to and one to hear from for each message; over a network
 *    alone at least as many as there are peers to send to.
 *  - Sync bytes: what collectives/barrier.h and fabric/arena.h state, computed here anew. */
#include "tests/support/check.h"
#include "tests/support/job.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Head (2 lines) and scratch (64 words) of a rank's arena; the blocks of groups follow. */
enum { LINE = 64, ARENA_FIXED_BYTES = 3 * LINE + 64 * 8 };

struct shape {
    uint64_t rounds, messages; /* of a dissemination of radix k among n */
};

static struct shape shape_of(uint64_t n, uint64_t k)
{
    struct shape s = {0, 0};

    for (uint64_t stride = 1; stride < n; stride *= k) {
        uint64_t peers = (n - 1) / stride;

        s.rounds++;
        s.messages += peers < k - 1 ? peers : k - 1;
    }
    return s;
}

/* The radix that the group uses: as set, but no more than its size; 0 where SFAB_RADIX does not say. */
static uint64_t radix_of(uint64_t n)
{
    const char *set = getenv("SFAB_RADIX");
    uint64_t k = set != NULL ? strtoull(set, NULL, 10) : 0;

    if (k > n)
        k = n;
    return k == 1 ? 2 : k;
}

static uint64_t block_bytes(uint64_t n, uint64_t messages, int member)
{
    uint64_t bytes = LINE                   /* arrived */
                     + LINE                 /* release */
                     + 2 * LINE             /* result */
                     + messages * LINE      /* flags */
                     + messages * 4 * LINE; /* payload */

    if (member == 0)
        bytes += LINE + n * LINE + n * 2 * LINE; /* counter, arrivals, values */
    return bytes;
}

/* Different ranks among those that this one sends to. */
static uint64_t targets(uint64_t n, uint64_t k)
{
    bool *seen = calloc(n, sizeof *seen);
    uint64_t count = 0;

    for (uint64_t stride = 1; seen != NULL && stride < n; stride *= k)
        for (uint64_t j = 1; j < k && j * stride < n; j++) {
            count += !seen[j * stride];
            seen[j * stride] = true;
        }
    free(seen);
    return count;
}

static int work(sfab_ctx *ctx, void *arg)
{
    struct sfab_check c = {.ctx = ctx,
                           .world = sfab_world(ctx),
                           .rank = sfab_rank(ctx),
                           .size = sfab_size(ctx),
                           .name = "sizes"};
    uint64_t n = (uint64_t)c.size, k = radix_of(n);
    sfab_counters counters = {0};
    sfab_layout layout;
    char how[256] = "";

    (void)arg;
    CHECK(&c, k >= 2); /* SFAB_RADIX */
    if (k < 2)
        return c.failures;
    struct shape shape = shape_of(n, k);
    for (int i = 0; i < 5; i++)
        CHECK_OK(&c, sfab_barrier(c.world, PATIENCE_NS));
    CHECK_OK(&c, sfab_counters_get(ctx, &counters));
    CHECK_OK(&c, sfab_layout_get(ctx, &layout));
    CHECK_OK(&c, sfab_barrier_describe(c.world, how, sizeof how));

    uint64_t sync = ARENA_FIXED_BYTES + block_bytes(n, shape.messages, c.rank);
    uint64_t most = 2 * (k - 1) * shape.rounds;
    bool network = strcmp(layout.transports, "verbs") == 0;
    CHECK(&c, counters.sync_bytes_now == sync);
    CHECK(&c, counters.registered_bytes_now >= sync);
    if (strncmp(how, "dissemination", 13) == 0) {
        CHECK(&c, counters.connections_now <= most);
        CHECK(&c, !network || counters.connections_now >= targets(n, k));
    }
    if (c.rank == 0 || c.failures > 0)
        printf("rank %d of %llu, %s, radix %llu: %llu connections (at most %llu), %llu sync bytes "
               "(formula: %llu)\n",
               c.rank, (unsigned long long)n, layout.transports, (unsigned long long)k,
               (unsigned long long)counters.connections_now, (unsigned long long)most,
               (unsigned long long)counters.sync_bytes_now, (unsigned long long)sync);
    CHECK_OK(&c, sfab_barrier(c.world, PATIENCE_NS)); /* nobody leaves while others connect */
    return c.failures;
}

int main(void)
{
    return sfab_job_process(work, NULL) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
