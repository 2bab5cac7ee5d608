/* cmd_bench.c - `sfab bench`: options; starts the ranks itself unless it is one already. */
#include "tools/bench.h"
#include "tools/bench_launch.h"
#include "tools/commands.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    int (*run)(struct sfab_bench *);
    uint64_t iterations; /* unless told */
} kinds[] = {
    {"barrier", sfab_bench_barrier, 100000}, {"put", sfab_bench_put, 10000},
    {"get", sfab_bench_get, 10000},          {"atomic", sfab_bench_atomic, 10000},
    {"switch", sfab_bench_switch, 20000},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void usage(FILE *out)
{
    fprintf(
        out,
        "usage: sfab bench barrier|put|get|atomic|switch [OPTIONS]\n\n"
        "  -n, --ranks N        ranks to start on this machine (2); under a launcher: that job's\n"
        "      --nodes M        pretend M nodes: ranks of different ones share no memory\n"
        "      --transport T    auto, shm, verbs, or a list (SFAB_TRANSPORT)\n"
        "      --algorithm A    auto, dissemination, central (SFAB_BARRIER)\n"
        "      --radix K        of the dissemination (SFAB_RADIX)\n"
        "      --iterations I   operations to measure\n"
        "      --batch B        operations a sample; default: so many that the clock does not "
        "show\n"
        "      --size BYTES     put, get: this size alone instead of a table\n"
        "      --bind cpu|none  a CPU for each rank; default: cpu when there are enough\n"
        "      --timeout S      end the run after S seconds\n"
        "      --json           one JSON object on one line\n\n"
        "barrier: one barrier, as each rank sees it. put: one way, data and signal. get, atomic:\n"
        "round trip. switch: one context switch in a ring of ranks that yield on one CPU.\n"
        "Figures are means over ranks of each rank's own; min and max are over all samples;\n"
        "the slowest rank is the one with the largest mean.\n");
}

struct parsed {
    struct sfab_bench_options bench;
    const char *settings[8]; /* NAME=value for the ranks */
    int setting_count;
    char text[4][64];
    long timeout_s;
    const char *bind; /* NULL: by the number of CPUs */
};

/* A whole number from min to max, or -1 after a complaint. */
static long long number(const char *option, const char *text, long long min, long long max)
{
    char *end;

    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (text[0] == '\0' || *end != '\0' || errno != 0 || value < min || value > max) {
        fprintf(stderr,
                "sfab bench: %s \"%s\" cannot be used: it takes a whole number from %lld to %lld\n",
                option, text, min, max);
        return -1;
    }
    return value;
}

static void set(struct parsed *p, const char *name, const char *value)
{
    char *text = p->text[p->setting_count];

    snprintf(text, sizeof p->text[0], "%s=%s", name, value);
    p->settings[p->setting_count++] = text;
}

static int parse_option(struct parsed *p, int option, const char *arg)
{
    long long value = 0;

    switch (option) {
    case 'n':
        value = number("-n", arg, 1, 100000);
        p->bench.ranks = (int)value;
        break;
    case 'm':
        value = number("--nodes", arg, 1, 100000);
        p->bench.nodes = (int)value;
        break;
    case 'i':
        value = number("--iterations", arg, 1, 1000000000);
        p->bench.iterations = (uint64_t)value;
        break;
    case 'b':
        value = number("--batch", arg, 1, 1000000);
        p->bench.batch = (uint64_t)value;
        break;
    case 's':
        value = number("--size", arg, 1, 1 << 20);
        p->bench.size_bytes = (size_t)value;
        break;
    case 'k':
        value = number("--radix", arg, 0, 64);
        set(p, "SFAB_RADIX", arg);
        break;
    case 'S':
        value = number("--timeout", arg, 1, 1000000);
        p->timeout_s = (long)value;
        break;
    case 't':
        set(p, "SFAB_TRANSPORT", arg);
        break;
    case 'a':
        set(p, "SFAB_BARRIER", arg);
        break;
    case 'B':
        p->bind = arg;
        if (strcmp(arg, "cpu") != 0 && strcmp(arg, "none") != 0) {
            fprintf(stderr, "sfab bench: --bind \"%s\" cannot be used: it takes cpu or none\n",
                    arg);
            return -1;
        }
        break;
    case 'j':
        p->bench.json = true;
        break;
    default:
        return -1;
    }
    return value < 0 ? -1 : 0;
}

/* 0, 1 (help was shown) or -1. */
static int parse(struct parsed *p, int argc, char **argv)
{
    static const struct option options[] = {{"ranks", required_argument, NULL, 'n'},
                                            {"nodes", required_argument, NULL, 'm'},
                                            {"transport", required_argument, NULL, 't'},
                                            {"algorithm", required_argument, NULL, 'a'},
                                            {"radix", required_argument, NULL, 'k'},
                                            {"iterations", required_argument, NULL, 'i'},
                                            {"batch", required_argument, NULL, 'b'},
                                            {"size", required_argument, NULL, 's'},
                                            {"bind", required_argument, NULL, 'B'},
                                            {"timeout", required_argument, NULL, 'S'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    int option;

    *p = (struct parsed){.bench = {.ranks = 2, .nodes = 1}};
    while ((option = getopt_long(argc, argv, "n:h", options, NULL)) != -1) {
        if (option == 'h') {
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
    p->bench.kind = argv[optind];
    if (p->bench.nodes > p->bench.ranks) {
        fprintf(stderr, "sfab bench: %d nodes cannot share %d ranks\n", p->bench.nodes,
                p->bench.ranks);
        return -1;
    }
    return 0;
}

/* ---- a rank ------------------------------------------------------------------------------ */

static int complain(sfab_ctx *ctx)
{
    char text[1024];

    sfab_last_error(ctx, text, sizeof text);
    if (text[0] != '\0')
        fprintf(stderr, "sfab bench: %s\n", text);
    return 1;
}

static int run_rank(struct sfab_bench_options *options, size_t kind)
{
    struct sfab_bench bench = {.options = options};

    if (sfab_open(NULL, &bench.ctx) != 0)
        return complain(NULL);
    bench.world = sfab_world(bench.ctx);
    bench.rank = sfab_rank(bench.ctx);
    bench.size = sfab_size(bench.ctx);
    bench.result.bench = options->kind;
    bench.result.ranks = bench.size;
    sfab_layout layout;
    sfab_layout_get(bench.ctx, &layout);
    bench.result.nodes = layout.nodes;
    snprintf(bench.result.transport, sizeof bench.result.transport, "%.31s", layout.transports);
    bench.samples = calloc(options->iterations + 1, sizeof *bench.samples);
    int rc = bench.samples != NULL ? kinds[kind].run(&bench) : -ENOMEM;
    if (rc != 0)
        complain(bench.ctx);
    free(bench.samples);
    if (sfab_close(bench.ctx) != 0)
        rc = 1;
    return rc == 0 ? 0 : 1;
}

int sfab_cmd_bench(int argc, char **argv)
{
    struct parsed p;
    size_t kind = 0;
    int rc = parse(&p, argc, argv);

    if (rc != 0)
        return rc > 0 ? 0 : 2;
    while (kind < KINDS && strcmp(kinds[kind].name, p.bench.kind) != 0)
        kind++;
    if (kind == KINDS) {
        fprintf(stderr, "sfab bench: there is no bench \"%s\"; `sfab bench --help` lists them\n",
                p.bench.kind);
        return 2;
    }
    if (p.bench.iterations == 0)
        p.bench.iterations = kinds[kind].iterations;
    if (getenv("SFAB_RANK") != NULL)
        return run_rank(&p.bench, kind);
    struct sfab_bench_launch launch = {.ranks = p.bench.ranks,
                                       .nodes = p.bench.nodes,
                                       .bind = p.bind,
                                       .settings = p.settings,
                                       .timeout_s = p.timeout_s};
    return sfab_bench_launch(argc, argv, &launch);
}
