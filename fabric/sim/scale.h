/* scale.h - how long a collective takes among very many ranks: its real state machines on a LogGP network
 * (Culler et al. 1993; Alexandrov et al. 1995) and noisy CPUs.
 *
 * The faults and the disorder of sim.h are not here, and neither are contexts, fibers and connections for
 * each rank: one context is every rank's in turn, since a table of peers for each rank of 65536 would not
 * fit into any memory. What is real is the group's class (collectives/) above the seam; the
 * transport below it charges time.
 *
 *   a send      keeps the rank's CPU for o, then its network port for g, and G for each byte after the first
 *   on its way  L
 *   arriving    keeps the target's port for g (and G); then its CPU notices, for `poll`
 *
 * With fewer CPUs than ranks those of a CPU take turns, and a change of hands costs `switch`. Each CPU is
 * taken away for `noise` once in each `noise_period`, at a phase of its own (after Hoefler, Schneider,
 * Lumsdaine: "Characterizing the influence of system noise", SC 2010). */
#ifndef SFAB_FABRIC_SIM_SCALE_H
#define SFAB_FABRIC_SIM_SCALE_H

#include "fabric/config.h"
#include "fabric/group.h"

struct scale;

/* Times in picoseconds. */
struct scale_model {
    uint64_t latency, overhead, poll, gap, byte;
    uint64_t change;              /* of hands; 0 where each rank has a CPU */
    uint64_t noise, noise_period; /* 0: none */
    uint32_t cpus;                /* 0: one for each rank */
    uint64_t seed;
};

struct scale_counts {
    uint64_t events, messages,
        bytes; /* bytes: payload and words, without the network's own headers */
};

/* A rank's turn: it may call the collective, and scale_after. */
typedef void scale_turn(struct scale *s, uint32_t rank, void *arg);

/* config: the algorithm and its radix. 0, or a failure with its sentence in *err. */
int scale_new(const struct scale_model *model, uint32_t ranks, const struct sfab_config *config,
              const struct sfab_group_class *class, struct scale **out, struct sfab_err *err);
void scale_free(struct scale *s);

/* The group of all, as that rank has it; to be used in its turn only. */
struct sfab_group *scale_group(struct scale *s, uint32_t rank);

/* Gives the rank a turn in `delay` ps from now. It also gets one whenever something has arrived. */
void scale_after(struct scale *s, uint32_t rank, uint64_t delay);

/* Runs turns until nothing is left to happen, or stop was called. */
void scale_run(struct scale *s, scale_turn *turn, void *arg);
void scale_stop(struct scale *s);

uint64_t scale_now(const struct scale *s); /* ps; within a turn: as far as its CPU has come */
uint64_t scale_random(struct scale *s, uint64_t below);
struct scale_counts scale_counts(const struct scale *s);
const char *scale_error(const struct scale *s); /* the last failure's sentence */

#endif
