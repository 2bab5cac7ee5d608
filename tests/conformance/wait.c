/* wait.c - operations: test, wait with a timeout, many at a time, cancel, waking from sleep. */
#include "tests/conformance/suite.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void nap_ms(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

static void timeouts(struct sfab_check *c)
{
    struct sfab_shared s;
    char text[1024];
    sfab_op *op = NULL;
    int next = (c->rank + 1) % c->size, before = (c->rank + c->size - 1) % c->size;

    sfab_shared_open(c, 64, SFAB_REMOTE_WRITE, &s);
    CHECK_RC(c, -ETIMEDOUT, sfab_wait_u64(s.mem, 0, 5, before, 1000000));
    sfab_last_error(c->ctx, text, sizeof text);
    CHECK(c, strstr(text, "was to reach 5") != NULL && strstr(text, "expected from rank") != NULL);
    CHECK_OK(c, sfab_wait_u64_start(s.mem, 0, 5, before, &op));
    CHECK_RC(c, SFAB_INPROGRESS, sfab_op_test(op));
    CHECK_RC(c, -ETIMEDOUT, sfab_op_wait(op, 1000000));
    CHECK_RC(c, -ETIMEDOUT, sfab_op_wait(op, 0));
    CHECK_OK(c, sfab_barrier(c->world, PATIENCE_NS));
    CHECK_OK(c, sfab_put_u64(s.of[next], 0, 6));
    CHECK_OK(c, sfab_op_wait(op, PATIENCE_NS)); /* the same operation, waited on again */
    CHECK_RC(c, -EINVAL, sfab_op_test(op));
    sfab_shared_close(c, &s);
}

/* Sixty-four at a time and no more; ended and cancelled ones make room. */
static void many(struct sfab_check *c)
{
    enum { MOST = 64 };
    sfab_op *ops[MOST], *more = NULL;
    sfab_mem *mem = NULL;

    CHECK_OK(c, sfab_mem_alloc(c->ctx, 64, 0, &mem));
    for (int i = 0; i < MOST; i++)
        CHECK_OK(c, sfab_wait_u64_start(mem, 0, (uint64_t)i + 1, c->rank, &ops[i]));
    CHECK_RC(c, -EBUSY, sfab_flush_start(c->ctx, c->rank, &more));
    CHECK_OK(c, sfab_op_cancel(ops[MOST - 1]));
    CHECK_OK(c, sfab_flush_start(c->ctx, c->rank, &more));
    CHECK_OK(c, sfab_op_wait(more, PATIENCE_NS));
    ((volatile uint64_t *)sfab_mem_addr(mem))[0] = 40;
    for (int i = 0; i < MOST - 1; i++)
        CHECK_RC(c, i < 40 ? 0 : SFAB_INPROGRESS, sfab_op_test(ops[i]));
    for (int i = 40; i < MOST - 1; i++)
        CHECK_OK(c, sfab_op_cancel(ops[i]));
    CHECK_OK(c, sfab_mem_free(mem));
}

/* Long enough for everyone to be asleep, then one write to each, in a chain: nobody oversleeps. */
static void sleepers(struct sfab_check *c)
{
    struct sfab_shared s;
    int next = (c->rank + 1) % c->size, before = (c->rank + c->size - 1) % c->size;

    sfab_shared_open(c, 64, SFAB_REMOTE_WRITE, &s);
    for (uint64_t lap = 1; lap <= 3; lap++) {
        if (c->rank == 0) {
            nap_ms(60);
            CHECK_OK(c, sfab_put_u64(s.of[next], 0, lap));
        }
        CHECK_OK(c, sfab_wait_u64(s.mem, 0, lap, before, PATIENCE_NS));
        if (c->rank != 0)
            CHECK_OK(c, sfab_put_u64(s.of[next], 0, lap));
    }
    sfab_counters counters;
    CHECK_OK(c, sfab_counters_get(c->ctx, &counters));
    /* They did sleep, unless they were told never to. */
    const char *how = getenv("SFAB_WAIT");
    bool never = how != NULL && (strcmp(how, "spin") == 0 || strcmp(how, "yield") == 0);
    CHECK(c, c->rank == 0 || c->size == 1 || never || counters.blocks > 0);
    sfab_shared_close(c, &s);
}

const struct sfab_conformance_check sfab_wait_checks[] = {
    {"a wait times out with a reason, and can be taken up again", timeouts},
    {"many operations at a time, cancelled and refused", many},
    {"ranks that sleep are woken", sleepers},
    {NULL, NULL}};
