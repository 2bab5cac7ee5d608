/* sim.h - N ranks in one process on virtual time, running the core and the collectives that a job runs.
 *
 * A rank is a fiber (ucontext(3)); everything that takes time is an event in one heap, ordered by time
 * and, for equal times, by the order of their making. One seed decides everything, so a run repeats
 * exactly. The network (net.c) is the weakest that fabric/transport.h allows; the rendezvous (control.c)
 * is the server's own bookkeeping without sockets; the rest of a process' world is runtime.c.
 *
 * Faults are functions here: whoever runs the simulation schedules them. */
#ifndef SFAB_FABRIC_SIM_SIM_H
#define SFAB_FABRIC_SIM_SIM_H

#include "fabric/runtime.h"

#include <stdbool.h>
#include <stdint.h>

struct sim;
struct sim_rank;

/* What kind of world it is; each value is 0 where not said. */
struct sim_world {
    uint32_t ranks;
    uint64_t seed;
    const char
        *transport;      /* "sim": the network; "shm": memory that can be mapped; "auto": by node */
    uint32_t nodes;      /* rank r lives on node r modulo this; 0: one */
    const char *barrier; /* as SFAB_BARRIER */
    uint32_t radix;      /* as SFAB_RADIX */
    bool ordered;        /* the network has CAP_WAW_ORDERED */
    bool needs_progress; /* it has no CAP_BUSY_READABLE: what comes in waits for its target */
    bool crowded;        /* ranks share a CPU */
    uint64_t latency_ns; /* of a message, typical: each differs, a few by much */
    uint32_t again_pct;  /* operations of a hundred that begin a burst of -EAGAIN */
    uint32_t yield_pct;  /* operations of a hundred before which other ranks may run */
    bool trace;          /* events to stderr */
};

/* ---- running ----------------------------------------------------------------------------- */

struct sim *sim_new(const struct sim_world *world);

/* Frees everything but what ranks that were killed had allocated. */
void sim_free(struct sim *s);

/* Starts rank's program, at once. */
void sim_start(struct sim *s, uint32_t rank, void (*program)(uint32_t rank, void *arg), void *arg);

/* Runs events until every rank has ended its program or was killed, or virtual time has reached
 * until_ns: whether all have ended. */
bool sim_run(struct sim *s, uint64_t until_ns);

uint64_t sim_now(const struct sim *s);
uint64_t sim_random(struct sim *s, uint64_t below); /* from 0; below > 0 */
bool sim_percent(struct sim *s, uint32_t pct);

/* Calls fn after delay_ns. */
void sim_after(struct sim *s, uint64_t delay_ns, void (*fn)(struct sim *s, void *arg), void *arg);

void sim_trace(struct sim *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Marks the run as wrong; the first sentence counts. */
void sim_wrong(struct sim *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *sim_complaint(const struct sim *s); /* NULL: none */

/* What a rank that has not ended is at, for a complaint. */
const char *sim_rank_state(const struct sim *s, uint32_t rank);
bool sim_rank_ended(const struct sim *s, uint32_t rank);  /* by itself */
bool sim_rank_killed(const struct sim *s, uint32_t rank); /* or given up and never heard of again */

extern const struct sfab_runtime sim_runtime;

/* ---- within a program -------------------------------------------------------------------- */

void sim_compute(uint64_t ns); /* the owner is busy; its control thread is not */
struct sim *sim_current(void);

/* ---- faults ------------------------------------------------------------------------------ */

/* The process ends now, wherever it is; within: not now but in its n-th operation from here on. */
void sim_kill(struct sim *s, uint32_t rank);
void sim_kill_within(struct sim *s, uint32_t rank, uint64_t operations);

/* A new process under the rank of one that was killed while the job ran: its program begins anew. */
void sim_restart(struct sim *s, uint32_t rank, void (*program)(uint32_t rank, void *arg),
                 void *arg);

/* The process does not run, its control thread neither; its memory is there. */
void sim_pause(struct sim *s, uint32_t rank, bool paused);

/* What goes from a to b is lost, or held back, until the link is up again. */
void sim_link(struct sim *s, uint32_t a, uint32_t b, bool up);

/* The next operation from a to b ends in an error completion. */
void sim_break_next(struct sim *s, uint32_t a, uint32_t b);

#endif
