/* run.h - starts the ranks of a job on this host and sees them through to the end.
 *
 * Used by `sfab run` and by `sfab bench`, which runs itself as the ranks. Three kinds of process:
 *  - the launcher, which called sfab_run_ranks: waits, and hands signals on;
 *  - the keeper, its child: parent of all ranks, with the rendezvous server in a thread;
 *  - the ranks, each in a process group of its own.
 * Launcher and keeper are both "child subreapers": an orphan of a rank, whatever it did to get
 * away, becomes a child of the keeper (or of the launcher when the keeper is gone) and is killed at
 * the end. The keeper ends everything when the launcher vanishes, and the other way round; ranks
 * die with the keeper. So nothing is left behind, also after a SIGKILL of any one of them. */
#ifndef SFAB_TOOLS_RUN_H
#define SFAB_TOOLS_RUN_H

#include <stdbool.h>
#include <stdint.h>

#define SFAB_RUN_RANKS_MAX 65536u

/* Exit statuses besides the ranks' own; 128 + signal for signals. */
#define SFAB_RUN_EXIT_USAGE   2
#define SFAB_RUN_EXIT_TIMEOUT 124 /* as timeout(1) has it */
#define SFAB_RUN_EXIT_TROUBLE 125 /* the launcher itself could not go on */
#define SFAB_RUN_EXIT_CANNOT  126 /* the program is there but cannot be run */
#define SFAB_RUN_EXIT_ABSENT  127 /* there is no such program */

enum sfab_run_bind {
    SFAB_RUN_BIND_NONE,
    SFAB_RUN_BIND_CPU /* rank r on the r-th CPU this process may use, round and round */
};

enum sfab_run_on_death {
    SFAB_RUN_ABORT,   /* a rank that fails ends the job */
    SFAB_RUN_CONTINUE /* the others are told, and go on */
};

struct sfab_run_options {
    const char *name; /* how sentences begin: "sfab run" */
    uint32_t ranks;
    uint32_t nodes; /* pretended ones (SFAB_NODE): at most ranks; 0: none */
    bool label;     /* "[3] " before each line of output */
    enum sfab_run_bind bind;
    enum sfab_run_on_death on_death;
    int64_t timeout_ns;     /* of the whole job; -1: none */
    const char *const *env; /* "NAME=VALUE" for all ranks, NULL at the end; or NULL */
    char *const *argv;      /* the program and its arguments, NULL at the end */
};

/* Runs the job. Returns the exit status: 0 when every rank ended with 0, else that of the first
 * rank that failed, which is named on stderr (the others' waits are aborted; who has not ended then gets
 * SIGTERM, after 2 s SIGKILL). With SFAB_RUN_CONTINUE 0 when any rank ended with 0.
 * Blocks. No process is left behind. The caller has no other threads. */
int sfab_run_ranks(const struct sfab_run_options *options);

#endif
