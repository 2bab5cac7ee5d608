/* sim.h - `sfab sim`: what is predicted, and the prediction. */
#ifndef SFAB_TOOLS_SIM_H
#define SFAB_TOOLS_SIM_H

#include "fabric/sim/scale.h"

struct sfab_sim_options {
    struct scale_model model;
    struct sfab_config config; /* algorithm and radix */
    uint32_t ranks;
    uint64_t episodes, warmup; /* the latter are not counted */
    uint64_t work, imbalance;  /* ps between two barriers: always, and up to that much more */
    unsigned words;            /* of a sum that the barrier carries; 0: a plain barrier */
    bool progress;             /* on stderr */
};

struct sfab_sim_result {
    char algorithm[160];
    double messages, bytes; /* a rank sends in a barrier */
    double mean_ns, p50_ns, p99_ns,
        max_ns;           /* from a rank's entering to its leaving: all ranks, all episodes */
    double after_last_ns; /* from the last one's entering to the last one's leaving: mean */
    uint64_t events;
    double seconds;
    uint64_t memory_bytes; /* the most that this process has had so far */
};

/* 0; else the sentence has gone to stderr. */
int sfab_sim_barrier(const struct sfab_sim_options *options, struct sfab_sim_result *result);

#endif
