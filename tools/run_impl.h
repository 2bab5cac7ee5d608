/* run_impl.h - what the launcher's files share.
 *
 *   run.c         the launcher's process: signals, and what to do when the keeper dies
 *   run_keeper.c  the keeper's loop: who ended, who is to end
 *   run_spawn.c   one rank: environment, descriptors, exec
 *   run_path.c    finding the program
 *   run_label.c   output labelled by rank
 *   run_tree.c    killing and reaping everything that descends from here
 */
#ifndef SFAB_TOOLS_RUN_IMPL_H
#define SFAB_TOOLS_RUN_IMPL_H

#include "tools/run.h"

#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

/* "sfab run: ..." on stderr, in one write. */
void sfab_run_say(const struct sfab_run_options *options, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- run_keeper.c ---- */

/* What the launcher's process was like, for the ranks to be the same. */
struct sfab_run_before {
    sigset_t mask;
    struct sigaction sigpipe, sigchld;
    struct rlimit files;
};

/* The keeper's whole life; returns the exit status. lifeline: end of file when the launcher is
 * gone, a byte for each signal that it got. */
int sfab_run_keep(const struct sfab_run_options *options, const struct sfab_run_before *before,
                  int lifeline);

/* ---- run_path.c ---- */

/* Where argv[0] is, as execvp would find it: 0 and the path (PATH_MAX bytes), or a positive errno.
 */
int sfab_run_find(const char *program, char *path);

/* ---- run_label.c ---- */

struct sfab_run_label;

/* Pipes for all ranks' stdout and stderr. 0 or a negative errno. */
int sfab_run_label_new(uint32_t ranks, struct sfab_run_label **out);
/* The descriptors that rank is to have as stdout and stderr. */
void sfab_run_label_ends(const struct sfab_run_label *label, uint32_t rank, int ends[2]);
/* All ranks have been started: closes the ranks' ends here and forwards from now on, in a thread.
 */
int sfab_run_label_start(struct sfab_run_label *label);
/* Readable once everything has been forwarded. */
int sfab_run_label_done_fd(const struct sfab_run_label *label);

/* ---- run_spawn.c ---- */

struct sfab_run_job {
    const struct sfab_run_options *options;
    const struct sfab_run_before *before;
    char path[PATH_MAX];
    char *const *shell_argv; /* sh, path, arguments: for a script without a first line */
    char **env;
    char rank_text[32], node_text[32], size_text[32], root_text[48], secret_text[96];
    struct sfab_run_label *label; /* NULL: output is inherited */
    int *cpus;                    /* allowed ones */
    int cpu_count;
    int null_fd;
    int exec_pipe[2]; /* {rank, errno} of an exec that failed */
    pid_t keeper;
};

struct sfab_run_exec_failure {
    uint32_t rank;
    int errnum;
};

/* All that does not differ between ranks; 0 or a negative errno, with *what naming the step. */
int sfab_run_job_init(struct sfab_run_job *job, uint16_t port, const char *secret_hex,
                      const char **what);
/* Starts one rank: its pid, or a negative errno. */
pid_t sfab_run_spawn(struct sfab_run_job *job, uint32_t rank);
/* The pretended node of a rank: contiguous blocks, as even as can be, the larger ones first. */
uint32_t sfab_run_node_of(uint32_t rank, uint32_t ranks, uint32_t nodes);

/* ---- run_tree.c ---- */

/* The children of this process (all its threads), at most cap of them. */
size_t sfab_run_children(pid_t *pids, size_t cap);
/* Kills all children, and theirs as they become children of this process, until there are none;
 * those in `spare` are left alone. False: some cannot be killed within timeout_ns. */
bool sfab_run_kill_tree(const pid_t *spare, size_t spare_count, uint64_t timeout_ns);

#endif
