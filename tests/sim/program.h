/* program.h - what each rank of a simulated job does: a sequence of collectives and one-sided operations
 * that the schedule's seed tells, going on with the survivors after a death. */
#ifndef SFAB_TESTS_SIM_PROGRAM_H
#define SFAB_TESTS_SIM_PROGRAM_H

#include "tests/sim/oracle.h"

struct plan {
    uint64_t seed;
    uint32_t steps;
    uint32_t slow_pct;  /* steps of a hundred that a rank begins late */
    uint64_t slow_ns;   /* by how much, most */
    int64_t abort_step; /* the step at which rank 0 aborts the job; -1: none */
    struct oracle *oracle;
};

void program(uint32_t rank, void *plan);

/* A rank that was started again in a job that runs: it must be refused. */
void program_restarted(uint32_t rank, void *plan);

#endif
