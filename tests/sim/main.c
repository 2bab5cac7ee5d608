/* main.c - runs schedules: each one a seed, from which follow the number of ranks, the network's ways,
 * the program and the faults.
 *
 * usage: sim_fuzz [--seeds FIRST:COUNT] [--seed N [--trace]] [--seconds S] [--jobs J] [--quiet]
 *
 *   --seeds F:C  runs C schedules from seed F on (1:20000)
 *   --seed N     runs one; --trace prints its events
 *   --seconds S  stops after so long, whatever is left
 *   --jobs J     processes at a time (the CPUs)
 *
 * The status is 0 when all were right. A wrong one prints its seed and the command that repeats it. */
#include "fabric/sim/sim.h"
#include "tests/sim/oracle.h"
#include "tests/sim/program.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

enum { CHUNK = 50 };

/* ---- a schedule -------------------------------------------------------------------------- */

enum fault_kind { KILL, KILL_WITHIN, PAUSE, CUT, CUT_ONE_WAY, BLIP, BREAK, RESTART };

struct fault {
    struct run *run;
    enum fault_kind kind;
    uint32_t a, b;
    uint64_t at, for_ns, operations;
};

enum { FAULTS_MAX = 8 }; /* as many as plan_faults() makes at most */

struct run {
    struct sim_world world;
    struct plan plan;
    struct fault faults[FAULTS_MAX];
    int fault_count;
    uint64_t quiet_at; /* no fault comes after this */
    bool deaths, given_up;
};

/* The schedule's own randomness: not the world's, so that a look at the plan changes nothing. */
struct dice {
    uint64_t state;
};

static uint64_t roll(struct dice *d, uint64_t below)
{
    uint64_t z = d->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

static bool chance(struct dice *d, uint32_t pct)
{
    return roll(d, 100) < pct;
}

static uint32_t choose_ranks(struct dice *d)
{
    uint64_t luck = roll(d, 1000);

    if (luck < 930)
        return 2 + (uint32_t)roll(d, 7);
    if (luck < 990)
        return 9 + (uint32_t)roll(d, 12);
    return luck < 998 ? 21 + (uint32_t)roll(d, 20) : 64;
}

static void add_fault(struct run *run, struct dice *d, enum fault_kind kind)
{
    uint32_t n = run->world.ranks;
    struct fault *f = &run->faults[run->fault_count++];

    *f = (struct fault){.run = run, .kind = kind, .a = (uint32_t)roll(d, n)};
    f->b = (f->a + 1 + (uint32_t)roll(d, n - 1)) % n;
    /* Some while the job starts; most in its first steps. */
    f->at = chance(d, 10) ? roll(d, 400 * US) : 350 * US + roll(d, chance(d, 80) ? MS : 20 * MS);
    f->operations = 1 + roll(d, 150);
    f->for_ns = kind == BLIP ? 1 + roll(d, 350 * MS) : 1 + roll(d, chance(d, 50) ? 5 * MS : 3 * S);
    run->deaths = run->deaths || (kind != PAUSE && kind != BLIP && kind != RESTART);
    run->given_up = run->given_up || kind == CUT || kind == CUT_ONE_WAY || kind == BREAK;
    if (run->quiet_at < f->at + f->for_ns)
        run->quiet_at = f->at + f->for_ns;
}

static void plan_faults(struct run *run, struct dice *d)
{
    uint64_t luck = roll(d, 100);
    int kills = luck < 35 ? 0 : luck < 75 ? 1 : luck < 90 ? 2 : 3;

    for (int i = 0; i < kills; i++)
        add_fault(run, d, chance(d, 50) ? KILL : KILL_WITHIN);
    if (kills > 0 && chance(d, 10)) {
        add_fault(run, d, RESTART);
        run->faults[run->fault_count - 1].a = run->faults[0].a;
        run->faults[run->fault_count - 1].at += 10 * MS;
    }
    if (chance(d, 12))
        add_fault(run, d, PAUSE);
    if (chance(d, 10))
        add_fault(run, d, BLIP);
    if (chance(d, 5))
        add_fault(run, d, chance(d, 50) ? CUT : CUT_ONE_WAY);
    if (chance(d, 3))
        add_fault(run, d, BREAK);
}

static void make_plan(struct run *run, uint64_t seed, bool trace)
{
    static const char *const barriers[] = {"auto", "dissemination", "dissemination", "central"};
    static const char *const transports[] = {"sim", "sim", "sim", "sim", "shm", "auto"};
    struct dice d = {seed * UINT64_C(0x2545f4914f6cdd1d) + 1};
    struct sim_world *w = &run->world;

    *w = (struct sim_world){.ranks = choose_ranks(&d), .seed = seed, .trace = trace};
    w->transport = transports[roll(&d, 6)];
    w->barrier = barriers[roll(&d, 4)];
    w->radix = chance(&d, 30) ? 0 : 2 + (uint32_t)roll(&d, 4);
    w->nodes = strcmp(w->transport, "auto") == 0 ? 2 + (uint32_t)roll(&d, 2) : 1;
    w->ordered = chance(&d, 40);
    w->needs_progress = chance(&d, 15);
    w->crowded = chance(&d, 50);
    w->latency_ns = 500 + roll(&d, 4000);
    w->again_pct = chance(&d, 50) ? 0 : (uint32_t)roll(&d, 25);
    w->yield_pct = chance(&d, 30) ? 0 : (uint32_t)roll(&d, 60);
    run->plan = (struct plan){.seed = seed, .steps = 3 + (uint32_t)roll(&d, 8), .abort_step = -1};
    run->plan.slow_pct = (uint32_t)roll(&d, 20);
    run->plan.slow_ns = chance(&d, 80) ? 50 * US : chance(&d, 80) ? 5 * MS : 1500 * MS;
    plan_faults(run, &d);
    if (chance(&d, 3)) {
        run->plan.abort_step = 1 + (int64_t)roll(&d, run->plan.steps);
        run->deaths = true;
    }
}

static void heal(struct sim *s, void *arg)
{
    struct fault *f = arg;

    if (f->kind == PAUSE) {
        sim_pause(s, f->a, false);
    } else {
        sim_link(s, f->a, f->b, true);
        sim_link(s, f->b, f->a, true);
    }
}

static void strike(struct sim *s, void *arg)
{
    struct fault *f = arg;

    switch (f->kind) {
    case KILL:
        sim_kill(s, f->a);
        break;
    case KILL_WITHIN:
        sim_kill_within(s, f->a, f->operations);
        break;
    case PAUSE:
        sim_pause(s, f->a, true);
        sim_after(s, f->for_ns, heal, f);
        break;
    case BLIP:
        sim_link(s, f->a, f->b, false);
        if (f->operations % 2 == 0)
            sim_link(s, f->b, f->a, false);
        sim_after(s, f->for_ns, heal, f);
        break;
    case CUT:
        sim_link(s, f->b, f->a, false);
        sim_link(s, f->a, f->b, false);
        break;
    case CUT_ONE_WAY:
        sim_link(s, f->a, f->b, false);
        break;
    case BREAK:
        sim_break_next(s, f->a, f->b);
        break;
    case RESTART:
        sim_restart(s, f->a, program_restarted, &f->run->plan);
        break;
    }
}

/* What never ends in so long after the last fault never does: the longest wait of the library's own is
 * some seconds (a hearing of suspects, sfab_close). */
static uint64_t give_up_at(const struct run *run)
{
    uint64_t busy_ns = run->plan.steps * (run->plan.slow_pct > 0 ? run->plan.slow_ns : 0);

    return run->quiet_at + busy_ns + 45 * S;
}

static void complain_of_hang(struct sim *s, const struct run *run)
{
    char who[512] = "";
    size_t at = 0;

    for (uint32_t i = 0; i < run->world.ranks && at + 40 < sizeof who; i++)
        if (!sim_rank_ended(s, i) && !sim_rank_killed(s, i))
            at += (size_t)snprintf(who + at, sizeof who - at, "%srank %u is %s", at > 0 ? ", " : "",
                                   i, sim_rank_state(s, i));
    sim_wrong(s, "nobody waits for ever once the faults stop: %s", who);
}

/* NULL: right. */
static const char *run_seed(uint64_t seed, bool trace)
{
    static char complaint[1024];
    static struct run run;

    run = (struct run){0};
    make_plan(&run, seed, trace);
    struct sim *s = sim_new(&run.world);
    run.plan.oracle = oracle_new(s, run.world.ranks);
    if (run.deaths)
        oracle_expect_failures(run.plan.oracle);
    if (run.given_up)
        oracle_expect_given_up(run.plan.oracle);
    for (uint32_t i = 0; i < run.world.ranks; i++)
        sim_start(s, i, program, &run.plan);
    for (int i = 0; i < run.fault_count; i++)
        sim_after(s, run.faults[i].at, strike, &run.faults[i]);
    bool over = sim_run(s, sim_now(s) + give_up_at(&run));
    if (sim_complaint(s) == NULL && !over)
        complain_of_hang(s, &run);
    if (sim_complaint(s) == NULL)
        oracle_end(run.plan.oracle);
    bool wrong = sim_complaint(s) != NULL;
    if (wrong)
        snprintf(
            complaint, sizeof complaint, "%u ranks, %s, barrier %s, radix %u%s%s, %d faults: %s",
            run.world.ranks, run.world.transport, run.world.barrier, run.world.radix,
            run.world.ordered ? ", ordered" : "",
            run.world.needs_progress ? ", needs progress" : "", run.fault_count, sim_complaint(s));
    oracle_free(run.plan.oracle);
    sim_free(s);
    return wrong ? complaint : NULL;
}

/* ---- many, in processes of their own: what killed ranks leave behind goes with them --------- */

struct options {
    uint64_t first, count, one;
    bool only_one, trace, quiet;
    unsigned seconds;
    long jobs;
    const char *self;
};

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int run_chunk(const struct options *o, uint64_t first, uint64_t end)
{
    for (uint64_t seed = first; seed < end; seed++) {
        alarm(60); /* virtual time that stands still: the process ends by the signal */
        const char *complaint = run_seed(seed, false);

        if (complaint != NULL) {
            printf("seed %" PRIu64 ": %s\n    again: %s --seed %" PRIu64 " --trace\n", seed,
                   complaint, o->self, seed);
            fflush(stdout);
            return 1;
        }
    }
    return 0;
}

struct child {
    pid_t pid;
    uint64_t first, end;
};

static void show(const struct options *o, uint64_t done, int wrong, double since)
{
    if (!o->quiet && isatty(STDERR_FILENO))
        fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " schedules, %d wrong, %.0f s", done, o->count,
                wrong, now_s() - since);
}

static int run_many(const struct options *o)
{
    struct child *children = calloc((size_t)o->jobs, sizeof *children);
    uint64_t next = o->first, last = o->first + o->count, done = 0;
    double since = now_s();
    int running = 0, wrong = 0;

    if (children == NULL)
        return 2;
    while (running > 0 || (next < last && wrong == 0)) {
        bool more =
            next < last && wrong == 0 && (o->seconds == 0 || now_s() - since < (double)o->seconds);

        if (more && running < o->jobs) {
            struct child *c = children;

            while (c->pid != 0)
                c++;
            c->first = next;
            c->end = next = next + CHUNK < last ? next + CHUNK : last;
            fflush(stdout);
            if ((c->pid = fork()) == 0)
                _exit(run_chunk(o, c->first, c->end));
            running++;
            continue;
        }
        if (running == 0)
            break;
        int status;
        pid_t pid = wait(&status);

        for (struct child *c = children; c < children + o->jobs; c++)
            if (c->pid == pid) {
                if (WIFSIGNALED(status))
                    printf("seeds %" PRIu64 " to %" PRIu64 ": the process ended by signal %d\n",
                           c->first, c->end - 1, WTERMSIG(status));
                wrong += status != 0;
                done += c->end - c->first;
                c->pid = 0;
                running--;
            }
        show(o, done, wrong, since);
    }
    free(children);
    if (!o->quiet && isatty(STDERR_FILENO))
        fputc('\n', stderr);
    printf("%" PRIu64 " schedules from seed %" PRIu64 " in %.1f s: %s\n", done, o->first,
           now_s() - since, wrong == 0 ? "all right" : "WRONG");
    return wrong != 0;
}

static bool parse(int argc, char **argv, struct options *o)
{
    *o = (struct options){
        .first = 1, .count = 20000, .jobs = sysconf(_SC_NPROCESSORS_ONLN), .self = argv[0]};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;

        if (strcmp(argv[i], "--trace") == 0) {
            o->trace = true;
        } else if (strcmp(argv[i], "--quiet") == 0) {
            o->quiet = true;
        } else if (value == NULL) {
            return false;
        } else if (strcmp(argv[i], "--seeds") == 0) {
            if (sscanf(value, "%" SCNu64 ":%" SCNu64, &o->first, &o->count) != 2)
                return false;
            i++;
        } else if (strcmp(argv[i], "--seed") == 0) {
            o->only_one = sscanf(value, "%" SCNu64, &o->one) == 1;
            i++;
        } else if (strcmp(argv[i], "--seconds") == 0) {
            o->seconds = (unsigned)strtoul(value, NULL, 10);
            i++;
        } else if (strcmp(argv[i], "--jobs") == 0) {
            o->jobs = strtol(value, NULL, 10);
            i++;
        } else {
            return false;
        }
    }
    return o->jobs > 0;
}

int main(int argc, char **argv)
{
    struct options o;

    if (!parse(argc, argv, &o)) {
        fprintf(stderr, "usage: sim_fuzz [--seeds FIRST:COUNT] [--seed N [--trace]] [--seconds S] "
                        "[--jobs J] [--quiet]\n");
        return 2;
    }
    if (!o.only_one)
        return run_many(&o);
    const char *complaint = run_seed(o.one, o.trace);
    printf("seed %" PRIu64 ": %s\n", o.one, complaint != NULL ? complaint : "right");
    return complaint != NULL;
}
