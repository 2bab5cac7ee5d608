/* run.c - the launcher's process: waits for the keeper and hands signals on.
 *
 * It does so little that little can go wrong with it; and whatever becomes of the keeper, it is
 * still there to end what the keeper left. */
#include "tools/run_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define UNKILLABLE_NS 10000000000ull
#define SPARE_MAX     256

void sfab_run_say(const struct sfab_run_options *options, const char *format, ...)
{
    char line[2048];
    int used = snprintf(line, sizeof line, "%s: ", options->name);
    va_list args;
    va_start(args, format);
    vsnprintf(line + used, sizeof line - (size_t)used - 1, format, args);
    va_end(args);
    size_t len = strnlen(line, sizeof line - 2);
    line[len] = '\n';
    ssize_t n = write(STDERR_FILENO, line, len + 1);
    (void)n; /* nobody to tell */
}

static int check_options(const struct sfab_run_options *o)
{
    if (o->ranks == 0 || o->ranks > SFAB_RUN_RANKS_MAX) {
        sfab_run_say(o, "a job has 1 to %u ranks, not %u", SFAB_RUN_RANKS_MAX, o->ranks);
    } else if (o->nodes > o->ranks) {
        sfab_run_say(o, "%u ranks cannot be spread over %u nodes: give --nodes 1 to %u", o->ranks,
                     o->nodes, o->ranks);
    } else if (o->argv == NULL || o->argv[0] == NULL) {
        sfab_run_say(o, "no program to run");
    } else {
        return 0;
    }
    return SFAB_RUN_EXIT_USAGE;
}

/* A descriptor below 3 that we open for ourselves would be taken for a rank's input or output. */
static void fill_standard_descriptors(void)
{
    for (int fd = 0; fd < 3; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd) {
            return;
        }
    }
}

struct launcher {
    const struct sfab_run_options *options;
    struct sfab_run_before before;
    sigset_t watched;
    int signals;     /* signalfd */
    int lifeline[2]; /* we hold the writing end; nobody else does */
    pid_t keeper;
    pid_t spare[SPARE_MAX]; /* children that were there before, which are none of ours */
    size_t spare_count;
};

static int open_all(struct launcher *l)
{
    sigemptyset(&l->watched);
    sigaddset(&l->watched, SIGCHLD);
    sigaddset(&l->watched, SIGINT);
    sigaddset(&l->watched, SIGTERM);
    sigaddset(&l->watched, SIGHUP);
    sigaddset(&l->watched, SIGQUIT);
    l->signals = signalfd(-1, &l->watched, SFD_CLOEXEC | SFD_NONBLOCK);
    if (l->signals < 0) {
        return -errno;
    }
    if (pipe2(l->lifeline, O_CLOEXEC) != 0) {
        int status = -errno;
        close(l->signals);
        return status;
    }
    return 0;
}

static void start_keeper(struct launcher *l)
{
    l->keeper = fork();
    if (l->keeper != 0) {
        return;
    }
    /* A group of its own: a terminal's signals reach it through us, once. */
    setpgid(0, 0);
    close(l->signals);
    close(l->lifeline[1]);
    _exit(sfab_run_keep(l->options, &l->before, l->lifeline[0]));
}

/* Killed, or crashed: its ranks died with it, their children came to us. */
static int keeper_died(struct launcher *l, int wait_status)
{
    int signum = WTERMSIG(wait_status);
    bool clean = sfab_run_kill_tree(l->spare, l->spare_count, UNKILLABLE_NS);
    sfab_run_say(l->options, "the process that keeps the ranks was killed by signal %d (%s); %s",
                 signum, strsignal(signum),
                 clean ? "all ranks have been ended" : "some processes cannot be killed");
    return 128 + signum;
}

/* -1: the keeper lives. */
static int look_at_keeper(struct launcher *l)
{
    int wait_status;
    pid_t pid = waitpid(l->keeper, &wait_status, WNOHANG);
    if (pid == 0) {
        return -1;
    }
    if (pid < 0) {
        return SFAB_RUN_EXIT_TROUBLE;
    }
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : keeper_died(l, wait_status);
}

static int wait_for_keeper(struct launcher *l)
{
    int status = look_at_keeper(l);
    while (status < 0) {
        struct pollfd p = {.fd = l->signals, .events = POLLIN};
        struct signalfd_siginfo info;
        poll(&p, 1, -1);
        while (read(l->signals, &info, sizeof info) == (ssize_t)sizeof info) {
            if (info.ssi_signo != SIGCHLD) {
                uint8_t signum = (uint8_t)info.ssi_signo;
                ssize_t n = write(l->lifeline[1], &signum, 1);
                (void)n; /* if nobody reads it, the keeper has just ended */
            }
        }
        status = look_at_keeper(l);
    }
    return status;
}

int sfab_run_ranks(const struct sfab_run_options *options)
{
    struct launcher l = {.options = options};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction standard = {.sa_handler = SIG_DFL};
    int reaper_before = 0;
    int status = check_options(options);
    if (status != 0) {
        return status;
    }
    fflush(NULL); /* or the keeper writes it once more */
    fill_standard_descriptors();
    status = open_all(&l);
    if (status != 0) {
        sfab_run_say(options, "cannot watch the job: %s", strerror(-status));
        return SFAB_RUN_EXIT_TROUBLE;
    }
    getrlimit(RLIMIT_NOFILE, &l.before.files);
    sigaction(SIGPIPE, &ignore, &l.before.sigpipe);
    sigaction(SIGCHLD, &standard, &l.before.sigchld);
    sigprocmask(SIG_BLOCK, &l.watched, &l.before.mask);
    prctl(PR_GET_CHILD_SUBREAPER, &reaper_before);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    l.spare_count = sfab_run_children(l.spare, SPARE_MAX);
    start_keeper(&l);
    if (l.keeper < 0) {
        sfab_run_say(options, "cannot start a process: %s", strerror(errno));
        status = SFAB_RUN_EXIT_TROUBLE;
    } else {
        status = wait_for_keeper(&l);
    }
    prctl(PR_SET_CHILD_SUBREAPER, reaper_before);
    close(l.signals);
    close(l.lifeline[0]);
    close(l.lifeline[1]);
    sigprocmask(SIG_SETMASK, &l.before.mask, NULL);
    sigaction(SIGPIPE, &l.before.sigpipe, NULL);
    sigaction(SIGCHLD, &l.before.sigchld, NULL);
    return status;
}
