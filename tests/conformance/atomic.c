/* atomic.c - fetch_add and compare_swap: nothing lost, nothing twice, whoever the ranks are. */
#include "tests/conformance/suite.h"

#include <stdlib.h>
#include <string.h>

enum { ADDS = 400 };

/* All ranks (the owner too) take tickets from one word of rank `owner`: every ticket once. */
static void tickets_of(struct sfab_check *c, struct sfab_shared *s, int owner)
{
    unsigned char *taken = calloc((size_t)(c->size * ADDS), 1);
    uint64_t last = 0;
    int wrong = 0;

    CHECK(c, taken != NULL);
    for (int i = 0; i < ADDS; i++) {
        uint64_t ticket = UINT64_MAX;

        CHECK_OK(c, sfab_fetch_add(s->of[owner], 0, 1, &ticket));
        CHECK_OK(c, sfab_flush(c->ctx, owner, PATIENCE_NS));
        wrong += ticket >= (uint64_t)(c->size * ADDS) || (i > 0 && ticket <= last);
        last = ticket;
        /* Mark it at rank 0, a byte a ticket: two of a kind leave a gap elsewhere. */
        s->bytes[65] = 1;
        if (ticket < (uint64_t)(c->size * ADDS))
            CHECK_OK(c, sfab_put(s->of[0], 128 + ticket, s->mem, 65, 1));
    }
    CHECK(c, wrong == 0);
    CHECK_OK(c, sfab_flush(c->ctx, SFAB_ALL_RANKS, PATIENCE_NS));
    CHECK_OK(c, sfab_barrier(c->world, PATIENCE_NS));
    if (c->rank == 0)
        for (int i = 0; i < c->size * ADDS; i++)
            wrong += s->bytes[128 + i] != 1;
    CHECK(c, wrong == 0);
    if (c->rank == owner) {
        uint64_t total = 0;

        CHECK_OK(c, sfab_load_u64(s->mem, 0, &total));
        CHECK(c, total == (uint64_t)(c->size * ADDS));
    }
    free(taken);
}

static void tickets(struct sfab_check *c)
{
    const int owners[] = {0, c->size - 1, c->size / 2};

    for (int i = 0; i < 3; i++) {
        struct sfab_shared s;

        sfab_shared_open(c, 128 + (size_t)(c->size * ADDS), SFAB_REMOTE_WRITE | SFAB_REMOTE_ATOMIC,
                         &s);
        tickets_of(c, &s, owners[i]);
        sfab_shared_close(c, &s);
    }
}

/* Many adds in flight at a time, results in order. */
static void pipelined(struct sfab_check *c)
{
    enum { DEEP = 300 };
    uint64_t results[DEEP];
    struct sfab_shared s;
    int next = (c->rank + 1) % c->size, wrong = 0;

    sfab_shared_open(c, 64, SFAB_REMOTE_ATOMIC, &s);
    for (int i = 0; i < DEEP; i++)
        CHECK_OK(c, sfab_fetch_add(s.of[next], 8, 3, &results[i]));
    CHECK_OK(c, sfab_fetch_add(s.of[next], 16, UINT64_MAX, NULL)); /* minus one, modulo 2^64 */
    CHECK_OK(c, sfab_flush(c->ctx, next, PATIENCE_NS));
    for (int i = 0; i < DEEP; i++)
        wrong += results[i] != 3 * (uint64_t)i;
    CHECK(c, wrong == 0);
    CHECK_OK(c, sfab_barrier(c->world, PATIENCE_NS));
    CHECK(c, *(uint64_t *)(void *)(s.bytes + 16) == UINT64_MAX);
    sfab_shared_close(c, &s);
}

/* One word, all ranks swap it from round to round + 1: exactly one of them wins each time. */
static void one_winner(struct sfab_check *c)
{
    enum { ROUNDS = 60 };
    struct sfab_shared s;
    uint64_t wins = 0;

    sfab_shared_open(c, 64, SFAB_REMOTE_ATOMIC, &s);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t before = UINT64_MAX;

        CHECK_OK(c, sfab_compare_swap(s.of[0], 0, round, round + 1, &before));
        CHECK_OK(c, sfab_flush(c->ctx, 0, PATIENCE_NS));
        CHECK(c, before == round || before == round + 1);
        wins += before == round;
        CHECK_OK(c, sfab_barrier(c->world, PATIENCE_NS));
    }
    CHECK_OK(c, sfab_barrier_reduce(c->world, SFAB_SUM, &wins, 1, PATIENCE_NS));
    CHECK(c, wins == ROUNDS);
    sfab_shared_close(c, &s);
}

const struct sfab_conformance_check sfab_atomic_checks[] = {
    {"fetch_add from all ranks at once: every ticket once", tickets},
    {"many fetch_adds in flight", pipelined},
    {"compare_swap from all ranks at once has one winner", one_winner},
    {NULL, NULL}};
