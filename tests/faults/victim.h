/* victim.h - what the files of the rank program `victim` share.
 *
 *   victim.c   options, and its life: open, work, survive, close
 *   work.c     one turn of each kind of work
 *   say.c      what it saw, as lines of JSON
 *   end.c      the ways it ends, or seems to */
#ifndef SFAB_TESTS_FAULTS_VICTIM_H
#define SFAB_TESTS_FAULTS_VICTIM_H

#include <syncfab/syncfab.h>

#include <stdbool.h>
#include <stdint.h>

#define VICTIM_RANKS_MAX   64
#define VICTIM_TEXT_BYTES  1024
#define VICTIM_BLOCK_BYTES 512 /* one put */

struct victim {
    /* ---- as told ---- */
    const char *work;     /* one of work.c's, or "mixed" */
    long dead;            /* deaths to expect: work ends some turns after so many; 0: at SIGUSR2 */
    long turns;           /* ends after so many turns at the latest; 0: no such limit */
    long timeout_ms;      /* of each wait, which is then waited on again; -1: none */
    long die_call;        /* dies at this call of the library; 0: not so */
    long die_us;          /* is killed so long after it has opened; -1: not so */
    const char *die_how;  /* at die_call: "kill", "exit" or "_exit" */
    const char *die_from; /* what die_us counts from: "start" or "open" */
    long holder;          /* a forked child holds every descriptor from the start of the work on */
    long compute_turn, compute_ms; /* computes so long before that turn; 0: not so */
    long abort_ms;                 /* aborts the job so long after it has opened; -1: not so */
    long linger_ms;                /* sleeps so long before it closes */

    /* ---- now ---- */
    sfab_ctx *ctx;
    sfab_group *group;  /* the one it works in */
    long generation;    /* how many groups there were before this one */
    long turn, settled; /* turns begun; turns since the last death that was to come */
    long calls;         /* of the library so far */
    uint64_t done;      /* episodes that this group has finished */
    const char *op;     /* what it calls */
    bool stop;          /* the members have agreed to end */
    sfab_mem *mem;
    sfab_rmem *of[VICTIM_RANKS_MAX]; /* by rank in the job */
};

/* Counts a call of the library, named for what is said of it; the place to die at. */
#define CALL(v, call) ((v)->op = #call, victim_count(v), (call))

/* ---- work.c ---- */

/* Memory for one-sided work: collective; where some have failed to share it, only the group's own
 * operations are left to do. The code of the operation by which the members agree on that. */
int victim_share(struct victim *v);
/* One turn, of which an operation of the group is the last: its code. */
int victim_turn(struct victim *v);
/* Leaves the group for that of the living. 0 or the code of what failed. */
int victim_shrink(struct victim *v);

/* ---- say.c: one line each, in one write ---- */

int64_t victim_now_ns(void);
void victim_say(const char *event);                                /* that it came so far */
void victim_say_pid(const char *event, long pid);                  /* and a process */
void victim_say_code(struct victim *v, const char *event, int rc); /* and what the library said */
void victim_say_late(struct victim *v);                            /* who has not come */
void victim_say_group(struct victim *v);                           /* who is in the group */
void victim_say_wrong(struct victim *v, const char *what);         /* what must never be */

/* ---- end.c ---- */

void victim_count(struct victim *v);
/* Arms what is to happen from now on; from: "start" or "open". */
void victim_arm(struct victim *v, const char *from);
void victim_compute(int64_t ms);

#endif
