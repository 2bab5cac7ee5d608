/* one_barrier.c - rank program of two: barriers whose peer has already arrived, so that an instruction
 * counter (tests/bench/callgrind) finds in measured_barrier() the cost of the call and no waiting.
 *
 * Rank 1 starts each episode and only then tells rank 0 so, by a word in rank 0's memory. Both are
 * stores of one thread into shared memory with release order, so the peer's flag is there when
 * measured_barrier() is called. Rank 1 starts the next episode only when rank 0 has told it, in the
 * same way, that measured_barrier() has returned: otherwise rank 0, slowed down by the counting, could
 * find either this episode's word or the next one's, which are not handled by the same instructions. */
#include "tests/support/check.h"
#include "tests/support/job.h"

#include <stdlib.h>

enum { WARM_UP = 20, BARRIERS = 100 };

/* What is counted: everything from entering this function to leaving it. */
__attribute__((noinline)) static int measured_barrier(sfab_group *world)
{
    int rc = sfab_barrier(world, -1);

    __asm__ volatile("" : "+r"(rc)); /* a call and a return, no jump into sfab_barrier */
    return rc;
}

/* Waits until rank 1 has started the episode, meets it, and says so. */
static void meet(struct sfab_check *c, sfab_mem *mine, sfab_rmem *word_of_1, uint64_t episode)
{
    CHECK_OK(c, sfab_wait_u64(mine, 0, episode, 1, PATIENCE_NS));
    CHECK_OK(c, measured_barrier(c->world));
    CHECK_OK(c, sfab_put_u64(word_of_1, 0, episode));
}

static void arrive_first(struct sfab_check *c, sfab_mem *mine, sfab_rmem *word_of_0,
                         uint64_t episode)
{
    sfab_op *op = NULL;

    CHECK_OK(c, sfab_barrier_start(c->world, &op));
    CHECK_OK(c, sfab_put_u64(word_of_0, 0, episode));
    CHECK_OK(c, sfab_op_wait(op, PATIENCE_NS));
    CHECK_OK(c, sfab_wait_u64(mine, 0, episode, 0, PATIENCE_NS));
}

static int work(sfab_ctx *ctx, void *arg)
{
    struct sfab_check c = {.ctx = ctx,
                           .world = sfab_world(ctx),
                           .rank = sfab_rank(ctx),
                           .size = sfab_size(ctx),
                           .name = "one barrier"};
    sfab_rmem *table[2] = {NULL, NULL};
    sfab_mem *mem = NULL;

    (void)arg;
    CHECK(&c, c.size == 2);
    if (c.failures > 0)
        return c.failures;
    CHECK_OK(&c, sfab_mem_alloc(ctx, 64, SFAB_REMOTE_WRITE, &mem));
    CHECK_OK(&c, sfab_mem_share(mem, c.world, table, PATIENCE_NS));
    for (int i = 0; c.failures == 0 && i < WARM_UP; i++)
        CHECK_OK(&c, sfab_barrier(c.world, PATIENCE_NS));
    for (uint64_t i = 1; c.failures == 0 && i <= BARRIERS; i++) {
        if (c.rank == 0)
            meet(&c, mem, table[1], i);
        else
            arrive_first(&c, mem, table[0], i);
    }
    if (c.rank == 0 && c.failures == 0)
        printf("barriers %d\n", BARRIERS);
    for (int i = 0; i < 2; i++)
        sfab_rmem_close(table[i]);
    return c.failures;
}

int main(void)
{
    return sfab_job_process(work, NULL) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
