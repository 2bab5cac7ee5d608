/* run_keeper.c - the keeper's loop: who ended, who is to end.
 *
 * Life of a job: running; told (a rank has failed, and the others' waits have been aborted: time to say
 * so); ending (the ranks have had SIGTERM); killing (they have had SIGKILL); and
 * when no rank is left, a sweep over whatever the ranks left behind. Why a job ends is decided
 * once: the first of a failed rank, a timeout, a signal, a vanished launcher. */
#include "tools/run_impl.h"

#include "fabric/boot/boot.h"
#include "fabric/boot/net.h"
#include "fabric/boot/ranges.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define TOLD_NS       250000000ull  /* between the abort and SIGTERM */
#define GRACE_NS      2000000000ull /* between SIGTERM and SIGKILL */
#define CAUSE_NS      1000000000ull /* for the rank that went first to end, before another is blamed */
#define UNKILLABLE_NS 10000000000ull /* then a process hangs in the kernel and we give up */
#define SECRET_BYTES  32
#define FILES_SPARE   256

enum phase { RUNNING, TOLD, ENDING, KILLING };

struct rank_process {
    pid_t pid;  /* 0: not started */
    bool ended; /* and reaped */
    int exec_errno;
};

/* A rank's failure, and how much it looks like the cause: of several that end in one moment, one
 * that was killed by a signal has more likely brought down the others than the other way round. */
struct failure {
    uint32_t rank;
    pid_t pid;
    int wait_status;
    int weight; /* 0: none */
};

struct keeper {
    const struct sfab_run_options *options;
    struct sfab_run_job job;
    struct rank_process *ranks;
    uint32_t running;
    enum phase phase;
    int status;         /* the job's exit status */
    uint64_t end_by_ns; /* running: the timeout; ending and killing: the next step */
    int signals;        /* signalfd */
    int lifeline;       /* -1: the launcher is gone */
    bool one_good;      /* a rank has ended with 0 */
    bool impatient;     /* a second signal, or the launcher is gone: no more waiting */
    struct sfab_boot_server *server;
    struct failure suspect;    /* weight 0: none; a failure that may be another's consequence */
    uint64_t suspect_until_ns; /* how long the other has to end */
};

/* ---- ending ------------------------------------------------------------------------------ */

static void signal_groups(const struct keeper *k, int signum)
{
    for (uint32_t r = 0; r < k->options->ranks; r++) {
        if (k->ranks[r].pid > 0 && !k->ranks[r].ended) {
            kill(-k->ranks[r].pid, signum);
        }
    }
}

static void begin_killing(struct keeper *k)
{
    k->phase = KILLING;
    k->end_by_ns = sfab_deadline_ns(sfab_now_ns(), UNKILLABLE_NS);
    signal_groups(k, SIGKILL);
}

static void terminate(struct keeper *k)
{
    k->phase = ENDING;
    k->end_by_ns = sfab_deadline_ns(sfab_now_ns(), GRACE_NS);
    signal_groups(k, SIGTERM);
    signal_groups(k, SIGCONT); /* a stopped process hears nothing */
}

/* Decides the job's status; the first decision stands. */
static void begin_ending(struct keeper *k, int status)
{
    if (k->phase != RUNNING) {
        return;
    }
    k->status = status;
    terminate(k);
}

/* The same for a rank's failure, of which the others' waits are told first. */
static void begin_aborting(struct keeper *k, int status, const char *text)
{
    if (k->phase != RUNNING) {
        return;
    }
    sfab_boot_server_abort(k->server, SFAB_ERR_PEER_DEAD, text);
    k->status = status;
    k->phase = TOLD;
    k->end_by_ns = sfab_deadline_ns(sfab_now_ns(), TOLD_NS);
}

static bool is_running(const void *arg, uint32_t rank)
{
    const struct keeper *k = arg;
    return k->ranks[rank].pid > 0 && !k->ranks[rank].ended;
}

/* "; ending the other 7 ranks" */
static const char *others_text(const struct keeper *k, char *buf, size_t cap)
{
    if (k->options->on_death == SFAB_RUN_CONTINUE && k->running > 0) {
        snprintf(buf, cap, "; the others go on (%u still run)", k->running);
    } else if (k->running == 0) {
        buf[0] = '\0';
    } else if (k->running == 1) {
        snprintf(buf, cap, "; ending the other rank");
    } else {
        snprintf(buf, cap, "; ending the other %u ranks", k->running);
    }
    return buf;
}

static void time_is_over(struct keeper *k)
{
    if (k->phase == RUNNING) {
        char who[400];
        char span[32];
        uint32_t count = sfab_ranges_text(who, sizeof who, k->options->ranks, is_running, k);
        sfab_run_say(k->options, "the job did not end within %s: %s still ran; ending %s",
                     sfab_span_text(span, sizeof span, (uint64_t)k->options->timeout_ns), who,
                     count == 1 ? "it" : "them");
        begin_ending(k, SFAB_RUN_EXIT_TIMEOUT);
    } else if (k->phase == TOLD) {
        terminate(k);
    } else if (k->phase == ENDING) {
        begin_killing(k);
    } else {
        char who[400];
        sfab_ranges_text(who, sizeof who, k->options->ranks, is_running, k);
        sfab_run_say(k->options, "%s cannot be killed (in the kernel's hands); giving up", who);
        k->running = 0;
    }
}

static void got_signal(struct keeper *k, int signum)
{
    if (k->phase != RUNNING) {
        k->impatient = true;
        begin_killing(k);
        return;
    }
    sfab_run_say(k->options, "got SIG%s; ending %u rank%s", sigabbrev_np(signum), k->running,
                 k->running == 1 ? "" : "s");
    begin_ending(k, 128 + signum);
}

/* ---- ranks that end ---------------------------------------------------------------------- */

static uint32_t rank_of(const struct keeper *k, pid_t pid)
{
    for (uint32_t r = 0; r < k->options->ranks; r++) {
        if (k->ranks[r].pid == pid && !k->ranks[r].ended) {
            return r;
        }
    }
    return UINT32_MAX;
}

static void read_exec_failures(struct keeper *k)
{
    struct sfab_run_exec_failure failure;
    while (read(k->job.exec_pipe[0], &failure, sizeof failure) == (ssize_t)sizeof failure) {
        if (failure.rank < k->options->ranks) {
            k->ranks[failure.rank].exec_errno = failure.errnum;
        }
    }
}

static int weight_of(const struct keeper *k, uint32_t rank, int wait_status)
{
    int first = sfab_boot_server_first_dead(k->server) == (int64_t)rank ? 4 : 0;
    if (k->ranks[rank].exec_errno != 0) {
        return 3;
    }
    if (WIFSIGNALED(wait_status)) {
        return 2 + first;
    }
    return WEXITSTATUS(wait_status) != 0 ? 1 + first : 0;
}

/* Whether the first rank to go is another one, which has not ended yet (it writes its core, or is just
 * a moment slower than those it brought down). */
static bool is_consequence(const struct keeper *k, const struct failure *f)
{
    int64_t first = sfab_boot_server_first_dead(k->server);
    return first >= 0 && first != (int64_t)f->rank && !k->ranks[first].ended;
}

static int cannot_start(const struct sfab_run_options *options, int errnum)
{
    sfab_run_say(options, "cannot start '%s': %s", options->argv[0], strerror(errnum));
    return errnum == ENOENT ? SFAB_RUN_EXIT_ABSENT : SFAB_RUN_EXIT_CANNOT;
}

/* "was killed by signal 9 (Killed)" */
static const char *how_it_ended(int wait_status, char *buf, size_t cap)
{
    if (WIFSIGNALED(wait_status)) {
        snprintf(buf, cap, "was killed by signal %d (%s)", WTERMSIG(wait_status),
                 strsignal(WTERMSIG(wait_status)));
    } else {
        snprintf(buf, cap, "exited with status %d", WEXITSTATUS(wait_status));
    }
    return buf;
}

static void tell_failure(struct keeper *k, const struct failure *f)
{
    char others[64], how[96], text[160];
    if (k->ranks[f->rank].exec_errno != 0) {
        begin_ending(k, cannot_start(k->options, k->ranks[f->rank].exec_errno));
        return;
    }
    how_it_ended(f->wait_status, how, sizeof how);
    snprintf(text, sizeof text, "rank %u (pid %d) %s", f->rank, (int)f->pid, how);
    sfab_run_say(k->options, "%s%s", text, others_text(k, others, sizeof others));
    int status =
        WIFSIGNALED(f->wait_status) ? 128 + WTERMSIG(f->wait_status) : WEXITSTATUS(f->wait_status);
    if (k->options->on_death == SFAB_RUN_ABORT) {
        begin_aborting(k, status, text);
    } else if (k->status == 0 && !k->one_good) {
        k->status = status;
    }
}

/* The end of a rank's first process is the end of the rank: what else is in its group is killed
 * while the number of the group cannot mean another, before it is reaped. */
static void rank_ended(struct keeper *k, uint32_t rank, struct failure *worst)
{
    struct rank_process *p = &k->ranks[rank];
    int wait_status = 0;
    kill(-p->pid, SIGKILL);
    waitpid(p->pid, &wait_status, 0);
    p->ended = true;
    k->running--;
    if (wait_status == 0) {
        k->one_good = true;
        if (k->options->on_death == SFAB_RUN_CONTINUE && k->phase == RUNNING) {
            k->status = 0;
        }
    } else {
        char how[96];
        sfab_boot_server_dead(k->server, rank, how_it_ended(wait_status, how, sizeof how));
    }
    int weight = weight_of(k, rank, wait_status);
    if (weight > worst->weight) {
        *worst = (struct failure){rank, p->pid, wait_status, weight};
    }
}

/* Tells of a failure, unless it is better to wait a little for the rank that caused it. */
static void judge(struct keeper *k, const struct failure *worst)
{
    if (worst->weight == 0 || k->phase != RUNNING) {
        return;
    }
    if (k->suspect.weight == 0) {
        k->suspect_until_ns = sfab_deadline_ns(sfab_now_ns(), CAUSE_NS);
    }
    k->suspect = *worst;
    if (!is_consequence(k, worst) || sfab_now_ns() >= k->suspect_until_ns) {
        tell_failure(k, worst);
        k->suspect.weight = 0;
    }
}

static void reap(struct keeper *k)
{
    struct failure worst = k->suspect;
    for (;;) {
        siginfo_t info = {0};
        /* Looked at first, reaped later. */
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
            break;
        }
        read_exec_failures(k); /* written before that child ended */
        uint32_t rank = rank_of(k, info.si_pid);
        if (rank == UINT32_MAX) {
            waitpid(info.si_pid, NULL, 0); /* an orphan that came to us */
        } else {
            rank_ended(k, rank, &worst);
        }
    }
    judge(k, &worst);
}

/* ---- the loop ---------------------------------------------------------------------------- */

static void read_signals(struct keeper *k)
{
    struct signalfd_siginfo info;
    while (read(k->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo != SIGCHLD) {
            got_signal(k, (int)info.ssi_signo);
        }
    }
    reap(k); /* signals of one kind are merged: always look */
}

static void read_lifeline(struct keeper *k)
{
    uint8_t signum;
    ssize_t n = read(k->lifeline, &signum, 1);
    if (n == 1) {
        got_signal(k, signum);
    } else if (n == 0) { /* the launcher was killed: nobody waits for us, nothing may stay */
        k->lifeline = -1;
        k->impatient = true;
        k->status = SFAB_RUN_EXIT_TROUBLE;
        begin_killing(k);
    }
}

/* One wait for anything; extra_fd: see it become readable, true if so. */
static bool wait_once(struct keeper *k, int extra_fd, uint64_t deadline_ns)
{
    struct pollfd p[3] = {{.fd = k->signals, .events = POLLIN},
                          {.fd = k->lifeline, .events = POLLIN},
                          {.fd = extra_fd, .events = POLLIN}};
    int n = poll(p, 3, sfab_poll_ms(sfab_now_ns(), deadline_ns));
    if (n <= 0) {
        return false;
    }
    if (p[0].revents != 0) {
        read_signals(k);
    }
    if (p[1].revents != 0) {
        read_lifeline(k);
    }
    return p[2].revents != 0;
}

static void see_through(struct keeper *k)
{
    while (k->running > 0) {
        uint64_t suspect_ns = k->suspect.weight > 0 ? k->suspect_until_ns : UINT64_MAX;
        wait_once(k, -1, suspect_ns < k->end_by_ns ? suspect_ns : k->end_by_ns);
        struct failure suspect = k->suspect;
        judge(k, &suspect);
        if (k->running > 0 && sfab_now_ns() >= k->end_by_ns) {
            time_is_over(k);
        }
    }
    if (!sfab_run_kill_tree(NULL, 0, UNKILLABLE_NS)) {
        sfab_run_say(k->options, "a process that a rank started cannot be killed; giving up");
    }
    /* All writers are gone; what they wrote is still to be shown, unless somebody presses on. */
    while (k->job.label != NULL && !k->impatient &&
           !wait_once(k, sfab_run_label_done_fd(k->job.label), UINT64_MAX)) {
    }
}

/* ---- starting ---------------------------------------------------------------------------- */

static int start_server(struct keeper *k, struct sfab_boot_server **server, uint16_t *port,
                        char *secret_hex)
{
    uint8_t secret[SECRET_BYTES];
    if (getrandom(secret, sizeof secret, 0) != (ssize_t)sizeof secret) {
        sfab_run_say(k->options, "no random numbers for the job's secret: %s", strerror(errno));
        return SFAB_RUN_EXIT_TROUBLE;
    }
    for (size_t i = 0; i < sizeof secret; i++) {
        snprintf(secret_hex + 2 * i, 3, "%02x", secret[i]);
    }
    /* What the ranks read from SFAB_SECRET is the text. Ranks have their own patience (their
     * SFAB_BOOT_TIMEOUT_MS); programs that never join are as welcome. */
    struct sfab_boot_server_config config = {
        .listen_host = "127.0.0.1", .size = k->options->ranks, .join_timeout_ns = UINT64_MAX};
    struct sfab_err err = {0};
    config.secret.len_bytes = strlen(secret_hex);
    memcpy(config.secret.bytes, secret_hex, config.secret.len_bytes);
    if (sfab_boot_server_start(&config, server, port, &err) != 0) {
        sfab_run_say(k->options, "cannot start the rendezvous: %s", err.text);
        return SFAB_RUN_EXIT_TROUBLE;
    }
    return 0;
}

/* Two pipes a rank, and the server's sockets. */
static void raise_files(const struct sfab_run_options *options)
{
    struct rlimit limit;
    rlim_t need = (rlim_t)options->ranks * (options->label ? 5 : 1) + FILES_SPARE;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < need) {
        limit.rlim_cur = need < limit.rlim_max ? need : limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit); /* whoever needs one more says so */
    }
}

static int start_ranks(struct keeper *k)
{
    for (uint32_t r = 0; r < k->options->ranks; r++) {
        pid_t pid = sfab_run_spawn(&k->job, r);
        if (pid < 0) {
            sfab_run_say(k->options, "cannot start rank %u: %s; ending the others", r,
                         strerror(-pid));
            begin_ending(k, SFAB_RUN_EXIT_TROUBLE);
            break;
        }
        k->ranks[r].pid = pid;
        k->running++;
    }
    int status = k->job.label != NULL ? sfab_run_label_start(k->job.label) : 0;
    if (status != 0) {
        sfab_run_say(k->options, "cannot label the output: %s", strerror(-status));
        begin_ending(k, SFAB_RUN_EXIT_TROUBLE);
        k->impatient = true;
    }
    return 0;
}

static int prepare(struct keeper *k, struct sfab_boot_server **server)
{
    char secret_hex[2 * SECRET_BYTES + 1];
    uint16_t port;
    const char *what = "";
    int errnum = sfab_run_find(k->options->argv[0], k->job.path);
    if (errnum != 0) {
        return cannot_start(k->options, errnum);
    }
    raise_files(k->options);
    int status = start_server(k, server, &port, secret_hex);
    if (status != 0) {
        return status;
    }
    status = sfab_run_job_init(&k->job, port, secret_hex, &what);
    if (status == 0 && k->options->label) {
        what = "cannot make two pipes a rank to label the output";
        status = sfab_run_label_new(k->options->ranks, &k->job.label);
    }
    if (status != 0) {
        sfab_run_say(k->options, "%s: %s", what, strerror(-status));
        return SFAB_RUN_EXIT_TROUBLE;
    }
    return 0;
}

static int watch_signals(struct keeper *k)
{
    sigset_t watched;
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    sigaddset(&watched, SIGINT);
    sigaddset(&watched, SIGTERM);
    sigaddset(&watched, SIGHUP);
    sigaddset(&watched, SIGQUIT);
    k->signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    /* Writing to a terminal must not stop us, a closed output must not end us. */
    sigaddset(&watched, SIGTTOU);
    sigprocmask(SIG_BLOCK, &watched, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    return k->signals < 0 ? -errno : 0;
}

int sfab_run_keep(const struct sfab_run_options *options, const struct sfab_run_before *before,
                  int lifeline)
{
    struct keeper k = {.options = options, .lifeline = lifeline, .end_by_ns = UINT64_MAX};
    struct sfab_boot_server *server = NULL;
    k.job.options = options;
    k.job.before = before;
    prctl(PR_SET_NAME, "rank-keeper");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    k.ranks = calloc(options->ranks, sizeof(*k.ranks));
    if (k.ranks == NULL || watch_signals(&k) != 0) {
        sfab_run_say(options, "no memory or descriptors for %u ranks", options->ranks);
        return SFAB_RUN_EXIT_TROUBLE;
    }
    int status = prepare(&k, &server);
    k.server = server;
    if (status == 0) {
        if (options->timeout_ns >= 0) {
            k.end_by_ns = sfab_deadline_ns(sfab_now_ns(), (uint64_t)options->timeout_ns);
        }
        start_ranks(&k);
        see_through(&k);
        status = k.status;
    }
    sfab_boot_server_stop(server);
    return status;
}
