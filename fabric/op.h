/* op.h - an operation under way: a small state machine that its owner steps.
 *
 * Embedded in whatever needs one (a barrier, a flush). step() must be re-entrant: it does what can be
 * done now, remembers where it is, and never waits. While it is in progress it may name the word it
 * waits for (watch), so that the waiting loop can look at that word alone. */
#ifndef SFAB_FABRIC_OP_H
#define SFAB_FABRIC_OP_H

#include "fabric/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct sfab_op;

/* What kind of operation it is; const, one for each kind. */
struct sfab_op_class {
    const char *name;
    /* 0 done, SFAB_INPROGRESS, or a failure whose sentence is in the context. */
    int (*step)(struct sfab_op *op);
    /* A rank is gone: 0 if op can still finish, else the failure, with its sentence in the context.
     * Called once for every change in who is there, and only after a step that found it unfinished. */
    int (*fault)(struct sfab_op *op);
    /* Writes why it is not finished into text, for the sentence of a timeout. May take a while. */
    void (*explain)(struct sfab_op *op, char *text, size_t cap);
    /* The handle ended (done, failed or cancelled): gives the storage back. May be NULL. */
    void (*release)(struct sfab_op *op);
    bool finishes_detached; /* cancelled, it goes on in the background until done */
};

enum sfab_op_state {
    SFAB_OP_FREE = 0,
    SFAB_OP_LIVE = 0x4f50,    /* the user has the handle */
    SFAB_OP_DETACHED = 0x4f51 /* cancelled; still stepped */
};

struct sfab_op {
    const struct sfab_op_class *class;
    struct sfab_ctx *ctx;
    const _Atomic uint64_t *watch; /* grows to watch_value when step can go on; NULL: not known */
    uint64_t watch_value;
    int32_t waits_for;           /* the rank that step waits for; -1: none in particular */
    int64_t timeout_ns;          /* of the wait that is over, for explain */
    struct sfab_op *prev, *next; /* in the context's list while listed */
    bool listed;
    uint32_t faults_seen;
    enum sfab_op_state state;
};

/* Makes op live and, when listed, part of what progress steps. */
void sfab_op_begin(struct sfab_op *op, bool listed);

/* Makes a live op part of what progress steps, if it is not yet. */
void sfab_op_list(struct sfab_op *op);

/* Ends op: unlists it, sets it free, gives its storage back. */
void sfab_op_end(struct sfab_op *op);

/* A step, and, when somebody is gone since the last one, whether op can still finish: 0,
 * SFAB_INPROGRESS, or its failure. */
int sfab_op_look(struct sfab_op *op);

/* Steps op until it is finished or the time is over (-ETIMEDOUT, op stays as it was); spins, yields,
 * sleeps as the context's wait policy says, and moves everything else in the context on. Ends op
 * unless it timed out. */
int sfab_op_drive(struct sfab_op *op, int64_t timeout_ns);

/* Steps every listed operation of ctx but `except`. */
void sfab_op_step_all(struct sfab_ctx *ctx, const struct sfab_op *except);

#endif
