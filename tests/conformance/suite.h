/* suite.h - the one conformance suite: what every transport must do, as seen through the public calls.
 *
 * A check runs on all ranks at once. It may assume nothing of the one before, and must leave the job in
 * step. The tables below are run in this order by main.c. */
#ifndef SFAB_TESTS_CONFORMANCE_SUITE_H
#define SFAB_TESTS_CONFORMANCE_SUITE_H

#include "tests/support/check.h"

struct sfab_conformance_check {
    const char *name;
    void (*run)(struct sfab_check *c);
};

extern const struct sfab_conformance_check sfab_rma_checks[], sfab_atomic_checks[],
    sfab_refusal_checks[], sfab_wait_checks[], sfab_barrier_checks[], sfab_mismatch_checks[];

/* Memory of every rank, opened from every rank. */
struct sfab_shared {
    sfab_mem *mem;
    sfab_rmem **of; /* by rank */
    char *bytes;    /* this rank's own */
};

void sfab_shared_open(struct sfab_check *c, size_t len_bytes, unsigned access,
                      struct sfab_shared *shared);
void sfab_shared_close(struct sfab_check *c, struct sfab_shared *shared);

/* A repeatable pseudo-random sequence (xorshift64*), the same on every rank for one seed. */
static inline uint64_t sfab_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

#endif
