/* run_spawn.c - one rank: its environment, its descriptors, exec.
 *
 * The keeper has threads when it forks, so between fork and exec only what is async-signal-safe is
 * called, and everything that needs memory is made before. */
#include "tools/run_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

extern char **environ;

#define CPUS_MAX 16384

/* ---- what all ranks share ---------------------------------------------------------------- */

/* Whether two "NAME=VALUE" have one name. */
static bool same_name(const char *a, const char *b)
{
    size_t len = strcspn(a, "=");
    return strncmp(a, b, len) == 0 && b[len] == '=';
}

static bool is_replaced(const struct sfab_run_job *job, const char *entry)
{
    static const char *const ours[] = {"SFAB_RANK=",   "SFAB_SIZE=",        "SFAB_ROOT=",
                                       "SFAB_SECRET=", "SFAB_SECRET_FILE=", "SFAB_ROOT_SERVED="};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        if (same_name(ours[i], entry)) {
            return true;
        }
    }
    if (job->options->nodes > 0 && same_name("SFAB_NODE=", entry)) {
        return true;
    }
    for (const char *const *e = job->options->env; e != NULL && *e != NULL; e++) {
        if (same_name(*e, entry)) {
            return true;
        }
    }
    return false;
}

/* Of two settings of one name the last one counts. */
static bool is_overridden(const char *const *entry)
{
    for (const char *const *later = entry + 1; *later != NULL; later++) {
        if (same_name(*entry, *later)) {
            return true;
        }
    }
    return false;
}

/* The rank's and node's text are filled in before each fork. */
static int make_env(struct sfab_run_job *job)
{
    size_t count = 8;
    for (char **e = environ; e != NULL && *e != NULL; e++) {
        count++;
    }
    for (const char *const *e = job->options->env; e != NULL && *e != NULL; e++) {
        count++;
    }
    job->env = calloc(count, sizeof(*job->env));
    if (job->env == NULL) {
        return -ENOMEM;
    }
    size_t n = 0;
    for (char **e = environ; e != NULL && *e != NULL; e++) {
        if (!is_replaced(job, *e)) {
            job->env[n++] = *e;
        }
    }
    for (const char *const *e = job->options->env; e != NULL && *e != NULL; e++) {
        if (!is_overridden(e)) {
            job->env[n++] = (char *)*e; /* exec's prototype wants it so; it changes nothing */
        }
    }
    job->env[n++] = job->rank_text;
    job->env[n++] = job->size_text;
    job->env[n++] = job->root_text;
    job->env[n++] = job->secret_text;
    job->env[n++] = (char *)"SFAB_ROOT_SERVED=yes"; /* by the keeper, not by rank 0 */
    if (job->options->nodes > 0) {
        job->env[n++] = job->node_text;
    }
    return 0;
}

static int make_shell_argv(struct sfab_run_job *job)
{
    size_t count = 0;
    while (job->options->argv[count] != NULL) {
        count++;
    }
    char **argv = calloc(count + 2, sizeof *argv);
    if (argv == NULL) {
        return -ENOMEM;
    }
    static char shell[] = "/bin/sh";
    argv[0] = shell;
    argv[1] = job->path;
    for (size_t i = 1; i < count; i++) {
        argv[i + 1] = job->options->argv[i];
    }
    job->shell_argv = argv;
    return 0;
}

static int find_cpus(struct sfab_run_job *job)
{
    size_t set_bytes = CPU_ALLOC_SIZE(CPUS_MAX);
    cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
    job->cpus = calloc(CPUS_MAX, sizeof(*job->cpus));
    int status = set == NULL || job->cpus == NULL ? -ENOMEM : 0;
    if (status == 0 && sched_getaffinity(0, set_bytes, set) != 0) {
        status = -errno;
    }
    for (size_t cpu = 0; status == 0 && cpu < CPUS_MAX; cpu++) {
        if (CPU_ISSET_S(cpu, set_bytes, set)) {
            job->cpus[job->cpu_count++] = (int)cpu;
        }
    }
    CPU_FREE(set);
    return status;
}

int sfab_run_job_init(struct sfab_run_job *job, uint16_t port, const char *secret_hex,
                      const char **what)
{
    snprintf(job->size_text, sizeof job->size_text, "SFAB_SIZE=%u", job->options->ranks);
    snprintf(job->root_text, sizeof job->root_text, "SFAB_ROOT=127.0.0.1:%u", port);
    snprintf(job->secret_text, sizeof job->secret_text, "SFAB_SECRET=%s", secret_hex);
    job->keeper = getpid();
    *what = "no memory for the ranks' environment";
    int status = make_env(job);
    if (status == 0) {
        status = make_shell_argv(job);
    }
    if (status == 0 && job->options->bind == SFAB_RUN_BIND_CPU) {
        *what = "cannot tell which CPUs may be used";
        status = find_cpus(job);
    }
    if (status == 0) {
        *what = "cannot open /dev/null";
        job->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        status = job->null_fd < 0 ? -errno : 0;
    }
    if (status == 0) {
        *what = "cannot make a pipe";
        status = pipe2(job->exec_pipe, O_CLOEXEC | O_NONBLOCK) != 0 ? -errno : 0;
    }
    return status;
}

uint32_t sfab_run_node_of(uint32_t rank, uint32_t ranks, uint32_t nodes)
{
    uint32_t small = ranks / nodes;
    uint32_t large = ranks % nodes; /* so many have one more */
    uint32_t in_large = large * (small + 1);
    return rank < in_large ? rank / (small + 1) : large + (rank - in_large) / small;
}

/* ---- the child, between fork and exec ----------------------------------------------------- */

static void bind_cpu(const struct sfab_run_job *job, uint32_t rank)
{
    /* A set of fixed size on the stack: no allocation here. */
    unsigned long words[CPUS_MAX / (8 * sizeof(unsigned long))] = {0};
    int cpu = job->cpus[rank % (uint32_t)job->cpu_count];
    words[(size_t)cpu / (8 * sizeof *words)] |= 1ul << (size_t)cpu % (8 * sizeof *words);
    (void)sched_setaffinity(0, sizeof words, (const cpu_set_t *)(const void *)words);
}

static void set_descriptors(const struct sfab_run_job *job, uint32_t rank)
{
    /* Ranks are background groups: reading a terminal would stop them. */
    if (rank != 0 || isatty(STDIN_FILENO)) {
        dup2(job->null_fd, STDIN_FILENO);
    }
    if (job->label != NULL) {
        int ends[2];
        sfab_run_label_ends(job->label, rank, ends);
        dup2(ends[0], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
    }
}

static void become_rank(const struct sfab_run_job *job, uint32_t rank) __attribute__((noreturn));
static void become_rank(const struct sfab_run_job *job, uint32_t rank)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != job->keeper) {
        _exit(SFAB_RUN_EXIT_TROUBLE); /* it died before it was asked to take us along */
    }
    if (job->options->bind == SFAB_RUN_BIND_CPU) {
        bind_cpu(job, rank);
    }
    set_descriptors(job, rank);
    setrlimit(RLIMIT_NOFILE, &job->before->files);
    sigaction(SIGPIPE, &job->before->sigpipe, NULL);
    sigaction(SIGCHLD, &job->before->sigchld, NULL);
    sigprocmask(SIG_SETMASK, &job->before->mask, NULL);
    execve(job->path, job->options->argv, job->env);
    if (errno == ENOEXEC) { /* a script without a first line, as shells take it */
        execve(job->shell_argv[0], job->shell_argv, job->env);
    }
    struct sfab_run_exec_failure failure = {.rank = rank, .errnum = errno};
    ssize_t n = write(job->exec_pipe[1], &failure, sizeof failure);
    (void)n;
    _exit(failure.errnum == ENOENT ? SFAB_RUN_EXIT_ABSENT : SFAB_RUN_EXIT_CANNOT);
}

pid_t sfab_run_spawn(struct sfab_run_job *job, uint32_t rank)
{
    snprintf(job->rank_text, sizeof job->rank_text, "SFAB_RANK=%u", rank);
    if (job->options->nodes > 0) {
        snprintf(job->node_text, sizeof job->node_text, "SFAB_NODE=node%u",
                 sfab_run_node_of(rank, job->options->ranks, job->options->nodes));
    }
    pid_t pid = fork();
    if (pid == 0) {
        become_rank(job, rank);
    }
    if (pid < 0) {
        return -errno;
    }
    setpgid(pid, pid); /* in both, as either may come first */
    return pid;
}
