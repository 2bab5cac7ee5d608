/* cmd_sim.c - `sfab sim`: options, and a line for each number of ranks and radix. */
#include "tools/commands.h"
#include "tools/sim.h"

#include "syncfab/syncfab.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LIST_MAX = 32, RANKS_MAX = 65536, RADIX_MAX = 64 };

struct list {
    uint32_t at[LIST_MAX];
    int count;
};

struct parsed {
    struct sfab_sim_options sim;
    struct list ranks, radices;
    bool json;
};

static void usage(FILE *out)
{
    fprintf(
        out,
        "usage: sfab sim barrier [OPTIONS]\n\n"
        "Predicts a barrier among very many ranks: the library's own state machines on a LogGP\n"
        "network, in virtual time. A line for each number of ranks and each radix.\n\n"
        "  -n, --ranks N[,N...]    1 to 65536 (8)\n"
        "  -k, --radix K[,K...]    2 to 64 (2,4,8)\n"
        "      --algorithm A       dissemination, central (dissemination)\n"
        "      --reduce W          the barrier carries a sum of W words (0)\n"
        "      --latency NS        L: on the way (1430)\n"
        "      --overhead NS       o: of the CPU for a send (200)\n"
        "      --gap NS            g: of a port for a message (275)\n"
        "      --byte NS           G: for each byte more (0.04, that is 25 GB/s)\n"
        "      --poll NS           until an arrival is noticed (70)\n"
        "      --cpus C            the ranks share C CPUs (0: one for each)\n"
        "      --switch NS         a CPU goes from one rank to another (1500)\n"
        "      --noise US:NS       every US microseconds a CPU is away for NS\n"
        "      --work NS           between two barriers (0)\n"
        "      --imbalance NS      and up to so much more, at random (0)\n"
        "      --episodes E        barriers that count (20)\n"
        "      --warmup E          before them (3)\n"
        "      --seed S            (1)\n"
        "      --json              one JSON object a line\n\n"
        "mean, p50, p99 and max are of a rank's time from entering to leaving; `after last` is "
        "from\n"
        "the last one's entering to the last one's leaving. Messages and bytes are what a rank "
        "sends in\n"
        "one barrier, the network's own headers not counted. The model: docs/scale.md.\n");
}

static int complain(const char *option, const char *text, const char *takes)
{
    fprintf(stderr, "sfab sim: --%s \"%s\" cannot be used: it takes %s\n", option, text, takes);
    return -1;
}

/* Nanoseconds, or microseconds with unit 1e6, as picoseconds. */
static int time_ps(const char *option, const char *text, double unit, uint64_t *out)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end != '\0' || !isfinite(value) || value < 0 || value * unit > 1e15)
        return complain(option, text, "a time from 0 to 1 s, in ns");
    *out = (uint64_t)llround(value * unit);
    return 0;
}

static int whole(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    char takes[96], *end;

    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value < min ||
        value > max) {
        snprintf(takes, sizeof takes, "a whole number from %llu to %llu", (unsigned long long)min,
                 (unsigned long long)max);
        return complain(option, text, takes);
    }
    *out = value;
    return 0;
}

static int list_of(const char *option, const char *text, uint32_t min, uint32_t max,
                   struct list *out)
{
    char copy[256], *rest = NULL;

    if (snprintf(copy, sizeof copy, "%s", text) >= (int)sizeof copy || text[0] == '\0')
        return complain(option, text, "up to 32 numbers with commas between them");
    out->count = 0;
    for (char *word = strtok_r(copy, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
        uint64_t value;

        if (out->count == LIST_MAX)
            return complain(option, text, "up to 32 numbers with commas between them");
        if (whole(option, word, min, max, &value) != 0)
            return -1;
        out->at[out->count++] = (uint32_t)value;
    }
    return out->count > 0 ? 0 : complain(option, text, "numbers with commas between them");
}

static int noise_of(const char *text, struct scale_model *model)
{
    static const char takes[] = "PERIOD:DETOUR, a period in us and a shorter time in ns: 1000:2500";
    const char *colon = strchr(text, ':');
    char period[32];

    if (colon == NULL || colon - text >= (int)sizeof period)
        return complain("noise", text, takes);
    snprintf(period, sizeof period, "%.*s", (int)(colon - text), text);
    if (time_ps("noise", period, 1e6, &model->noise_period) != 0 ||
        time_ps("noise", colon + 1, 1e3, &model->noise) != 0)
        return -1;
    return model->noise < model->noise_period ? 0 : complain("noise", text, takes);
}

static int algorithm_of(const char *text, struct sfab_config *config)
{
    if (strcmp(text, "dissemination") == 0)
        config->barrier = SFAB_BARRIER_DISSEMINATION;
    else if (strcmp(text, "central") == 0)
        config->barrier = SFAB_BARRIER_CENTRAL;
    else
        return complain("algorithm", text, "dissemination or central");
    return 0;
}

enum {
    RADIX = 'k',
    RANKS = 'n',
    HELP = 'h',
    LATENCY = 256,
    OVERHEAD,
    GAP,
    BYTE,
    POLL,
    CPUS,
    SWITCH,
    NOISE,
    WORK,
    IMBALANCE,
    EPISODES,
    WARMUP,
    SEED,
    REDUCE,
    ALGORITHM,
    JSON
};

static const struct option options[] = {{"ranks", required_argument, NULL, RANKS},
                                        {"radix", required_argument, NULL, RADIX},
                                        {"algorithm", required_argument, NULL, ALGORITHM},
                                        {"reduce", required_argument, NULL, REDUCE},
                                        {"latency", required_argument, NULL, LATENCY},
                                        {"overhead", required_argument, NULL, OVERHEAD},
                                        {"gap", required_argument, NULL, GAP},
                                        {"byte", required_argument, NULL, BYTE},
                                        {"poll", required_argument, NULL, POLL},
                                        {"cpus", required_argument, NULL, CPUS},
                                        {"switch", required_argument, NULL, SWITCH},
                                        {"noise", required_argument, NULL, NOISE},
                                        {"work", required_argument, NULL, WORK},
                                        {"imbalance", required_argument, NULL, IMBALANCE},
                                        {"episodes", required_argument, NULL, EPISODES},
                                        {"warmup", required_argument, NULL, WARMUP},
                                        {"seed", required_argument, NULL, SEED},
                                        {"json", no_argument, NULL, JSON},
                                        {"help", no_argument, NULL, HELP},
                                        {0}};

static int parse_option(struct parsed *p, int option, const char *arg)
{
    struct scale_model *m = &p->sim.model;
    uint64_t value = 0;
    int rc = 0;

    switch (option) {
    case RANKS:
        return list_of("ranks", arg, 1, RANKS_MAX, &p->ranks);
    case RADIX:
        return list_of("radix", arg, 2, RADIX_MAX, &p->radices);
    case ALGORITHM:
        return algorithm_of(arg, &p->sim.config);
    case REDUCE:
        rc = whole("reduce", arg, 0, SFAB_REDUCE_WORDS_MAX, &value);
        p->sim.words = (unsigned)value;
        return rc;
    case LATENCY:
        return time_ps("latency", arg, 1e3, &m->latency);
    case OVERHEAD:
        return time_ps("overhead", arg, 1e3, &m->overhead);
    case GAP:
        return time_ps("gap", arg, 1e3, &m->gap);
    case BYTE:
        return time_ps("byte", arg, 1e3, &m->byte);
    case POLL:
        return time_ps("poll", arg, 1e3, &m->poll);
    case SWITCH:
        return time_ps("switch", arg, 1e3, &m->change);
    case WORK:
        return time_ps("work", arg, 1e3, &p->sim.work);
    case IMBALANCE:
        return time_ps("imbalance", arg, 1e3, &p->sim.imbalance);
    case NOISE:
        return noise_of(arg, m);
    case CPUS:
        rc = whole("cpus", arg, 0, RANKS_MAX, &value);
        m->cpus = (uint32_t)value;
        return rc;
    case EPISODES:
        return whole("episodes", arg, 1, 1000000, &p->sim.episodes);
    case WARMUP:
        return whole("warmup", arg, 0, 1000000, &p->sim.warmup);
    case SEED:
        return whole("seed", arg, 0, UINT64_MAX, &m->seed);
    case JSON:
        p->json = true;
        return 0;
    default:
        return -1;
    }
}

/* 0, 1 (help was shown) or -1. */
static int parse(struct parsed *p, int argc, char **argv)
{
    int option;

    *p = (struct parsed){.sim = {.model = {.latency = 1430000,
                                           .overhead = 200000,
                                           .gap = 275000,
                                           .byte = 40,
                                           .poll = 70000,
                                           .change = 1500000,
                                           .seed = 1},
                                 .config = {.barrier = SFAB_BARRIER_DISSEMINATION},
                                 .episodes = 20,
                                 .warmup = 3},
                         .ranks = {.at = {8}, .count = 1},
                         .radices = {.at = {2, 4, 8}, .count = 3}};
    while ((option = getopt_long(argc, argv, "n:k:h", options, NULL)) != -1) {
        if (option == HELP) {
            usage(stdout);
            return 1;
        }
        if (parse_option(p, option, optarg) != 0)
            return -1;
    }
    if (optind + 1 != argc) {
        usage(stderr);
        return -1;
    }
    if (strcmp(argv[optind], "barrier") != 0) {
        fprintf(stderr, "sfab sim: there is nothing called \"%s\" to predict: barrier\n",
                argv[optind]);
        return -1;
    }
    if (p->sim.config.barrier == SFAB_BARRIER_CENTRAL)
        p->radices.count = 1;
    p->sim.progress = isatty(STDERR_FILENO) != 0;
    return 0;
}

static void print_head(const struct parsed *p)
{
    const struct scale_model *m = &p->sim.model;

    printf("L %g ns, o %g ns, g %g ns, G %g ns a byte, poll %g ns", (double)m->latency / 1e3,
           (double)m->overhead / 1e3, (double)m->gap / 1e3, (double)m->byte / 1e3,
           (double)m->poll / 1e3);
    if (m->cpus > 0)
        printf(", %u CPUs, switch %g ns", m->cpus, (double)m->change / 1e3);
    if (m->noise > 0)
        printf(", away every %g us for %g ns", (double)m->noise_period / 1e6,
               (double)m->noise / 1e3);
    printf("\n%7s %6s %6s %9s %9s %10s %10s %10s %10s %11s %8s %8s\n", "ranks", "radix", "rounds",
           "messages", "bytes", "mean us", "p50 us", "p99 us", "max us", "after last", "memory",
           "took");
}

static uint32_t rounds_of(uint32_t n, uint32_t k)
{
    uint32_t rounds = 0;

    for (uint64_t reach = 1; reach < n; reach *= k)
        rounds++;
    return rounds;
}

static void print_line(const struct parsed *p, const struct sfab_sim_result *r)
{
    uint32_t n = p->sim.ranks, k = (uint32_t)p->sim.config.radix;
    bool star = p->sim.config.barrier == SFAB_BARRIER_CENTRAL;
    char radix[16] = "-";

    if (!star)
        snprintf(radix, sizeof radix, "%u", k);
    if (p->json) {
        json_t *object = json_pack(
            "{s:s, s:I, s:I, s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, "
            "s:f, "
            "s:I, s:I, s:I, s:f}",
            "sim", "barrier", "ranks", (json_int_t)n, "radix", (json_int_t)(star ? 0 : k),
            "algorithm", star ? "central" : "dissemination", "reduce", (json_int_t)p->sim.words,
            "latency_ns", (double)p->sim.model.latency / 1e3, "overhead_ns",
            (double)p->sim.model.overhead / 1e3, "gap_ns", (double)p->sim.model.gap / 1e3,
            "byte_ns", (double)p->sim.model.byte / 1e3, "poll_ns", (double)p->sim.model.poll / 1e3,
            "noise_ns", (double)p->sim.model.noise / 1e3, "messages", r->messages, "bytes",
            r->bytes, "mean_ns", r->mean_ns, "p50_ns", r->p50_ns, "p99_ns", r->p99_ns, "max_ns",
            r->max_ns, "after_last_ns", r->after_last_ns, "episodes", (json_int_t)p->sim.episodes,
            "events", (json_int_t)r->events, "memory_bytes", (json_int_t)r->memory_bytes, "seconds",
            r->seconds);

        if (object != NULL)
            json_dumpf(object, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9));
        json_decref(object);
        printf("\n");
    } else {
        printf("%7u %6s %6u %9.4g %9.4g %10.2f %10.2f %10.2f %10.2f %11.2f %5.0f MB %6.1f s\n", n,
               radix, star ? 2 : rounds_of(n, k), r->messages, r->bytes, r->mean_ns / 1e3,
               r->p50_ns / 1e3, r->p99_ns / 1e3, r->max_ns / 1e3, r->after_last_ns / 1e3,
               (double)r->memory_bytes / 1e6, r->seconds);
    }
    fflush(stdout);
}

int sfab_cmd_sim(int argc, char **argv)
{
    struct parsed p;
    int rc = parse(&p, argc, argv);

    if (rc != 0)
        return rc > 0 ? 0 : 2;
    if (!p.json)
        print_head(&p);
    for (int i = 0; i < p.ranks.count; i++)
        for (int j = 0; j < p.radices.count; j++) {
            struct sfab_sim_result result;

            p.sim.ranks = p.ranks.at[i];
            p.sim.config.radix = p.radices.at[j];
            if (sfab_sim_barrier(&p.sim, &result) != 0)
                return 1;
            print_line(&p, &result);
        }
    return 0;
}
