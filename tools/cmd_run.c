/* cmd_run.c - `sfab run`: its command line. */
#include "tools/commands.h"
#include "tools/run.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES_OPTION    256
#define LABEL_OPTION    257
#define BIND_OPTION     258
#define TIMEOUT_OPTION  259
#define ON_DEATH_OPTION 260

static const char help_text[] =
    "usage: sfab run -n N [options] [--] PROGRAM [ARGUMENTS]\n"
    "\n"
    "Starts N ranks of PROGRAM on this host and waits for them. Each finds its place in "
    "SFAB_RANK,\n"
    "SFAB_SIZE, SFAB_ROOT and SFAB_SECRET. Rank 0 reads this command's standard input unless that "
    "is\n"
    "a terminal.\n"
    "\n"
    "  -n, --ranks N         number of ranks\n"
    "      --nodes M         pretend M nodes: M blocks of ranks, as even as can be, that share no\n"
    "                        memory with each other (SFAB_NODE)\n"
    "      --label           put \"[RANK] \" before each line that a rank writes\n"
    "      --bind none|cpu   cpu: pin rank r to the r-th CPU that may be used, round and round\n"
    "      --on-death HOW    abort: a rank that fails ends the job (default); continue: the others "
    "are\n"
    "                        told and go on, for programs that use sfab_group_shrink\n"
    "      --timeout S       end the job after S seconds and say which ranks still ran\n"
    "  -x, --env NAME=VALUE  set a variable for all ranks; may be given many times\n"
    "      --help            this text\n"
    "\n"
    "Exit status: 0 when every rank exits with 0, else that of the first rank that fails (128 + "
    "the\n"
    "signal's number if one killed it); the other ranks are ended, and it is named. With\n"
    "--on-death continue 0 when any rank exits with 0. 2: wrong usage;\n"
    "124: timeout; 125: trouble of this command's own; 126, 127: PROGRAM cannot be run, or is not\n"
    "there.\n";

static int bad_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int bad_usage(const char *format, ...)
{
    va_list args;
    fputs("sfab run: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputs(" (see sfab run --help)\n", stderr);
    return SFAB_RUN_EXIT_USAGE;
}

static int parse_count(const char *option, const char *text, uint32_t *out)
{
    char *end = NULL;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value < 1 ||
        value > (long)SFAB_RUN_RANKS_MAX) {
        return bad_usage("%s takes a number from 1 to %u, not '%s'", option, SFAB_RUN_RANKS_MAX,
                         text);
    }
    *out = (uint32_t)value;
    return 0;
}

static int parse_timeout(const char *text, int64_t *out_ns)
{
    char *end = NULL;
    double seconds = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(seconds) || seconds <= 0 || seconds > 1e9) {
        return bad_usage("--timeout takes a number of seconds above 0, not '%s'", text);
    }
    *out_ns = (int64_t)(seconds * 1e9);
    return 0;
}

static int parse_bind(const char *text, enum sfab_run_bind *out)
{
    if (strcmp(text, "none") == 0) {
        *out = SFAB_RUN_BIND_NONE;
    } else if (strcmp(text, "cpu") == 0) {
        *out = SFAB_RUN_BIND_CPU;
    } else {
        return bad_usage("--bind takes 'none' or 'cpu', not '%s'", text);
    }
    return 0;
}

static int parse_on_death(const char *text, enum sfab_run_on_death *out)
{
    if (strcmp(text, "abort") == 0) {
        *out = SFAB_RUN_ABORT;
    } else if (strcmp(text, "continue") == 0) {
        *out = SFAB_RUN_CONTINUE;
    } else {
        return bad_usage("--on-death takes 'abort' or 'continue', not '%s'", text);
    }
    return 0;
}

/* These differ from rank to rank or must agree with the rendezvous. */
static int check_env(const char *text)
{
    static const char *const ours[] = {"SFAB_RANK",   "SFAB_SIZE",        "SFAB_ROOT",
                                       "SFAB_SECRET", "SFAB_SECRET_FILE", "SFAB_ROOT_SERVED"};
    size_t len = strcspn(text, "=");
    if (len == 0 || text[len] != '=') {
        return bad_usage("-x takes NAME=VALUE, not '%s'", text);
    }
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        if (strlen(ours[i]) == len && strncmp(text, ours[i], len) == 0) {
            return bad_usage("%s is set by sfab run itself and cannot be given with -x", ours[i]);
        }
    }
    return 0;
}

struct parsed {
    struct sfab_run_options options;
    const char **env;
    size_t env_count;
    int help;
};

static int parse_option(struct parsed *p, int option, const char *argument)
{
    int status = 0;
    switch (option) {
    case 'n':
        return parse_count("-n", argument, &p->options.ranks);
    case NODES_OPTION:
        return parse_count("--nodes", argument, &p->options.nodes);
    case LABEL_OPTION:
        p->options.label = true;
        return 0;
    case BIND_OPTION:
        return parse_bind(argument, &p->options.bind);
    case ON_DEATH_OPTION:
        return parse_on_death(argument, &p->options.on_death);
    case TIMEOUT_OPTION:
        return parse_timeout(argument, &p->options.timeout_ns);
    case 'x':
        status = check_env(argument);
        p->env[p->env_count++] = argument;
        return status;
    default:
        p->help = 1;
        return 0;
    }
}

static int parse(int argc, char **argv, struct parsed *p)
{
    static const struct option options[] = {{"ranks", required_argument, NULL, 'n'},
                                            {"nodes", required_argument, NULL, NODES_OPTION},
                                            {"label", no_argument, NULL, LABEL_OPTION},
                                            {"bind", required_argument, NULL, BIND_OPTION},
                                            {"timeout", required_argument, NULL, TIMEOUT_OPTION},
                                            {"on-death", required_argument, NULL, ON_DEATH_OPTION},
                                            {"env", required_argument, NULL, 'x'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    opterr = 0;
    optind = 1;
    for (;;) {
        int at = optind;
        int option = getopt_long(argc, argv, "+:n:x:h", options, NULL);
        if (option == -1) {
            break;
        }
        if (option == ':') {
            return bad_usage("%s needs a value", argv[at]);
        }
        if (option == '?') {
            return bad_usage("there is no option '%s'", argv[at]);
        }
        int status = parse_option(p, option, optarg);
        if (status != 0 || p->help) {
            return status;
        }
    }
    if (p->options.ranks == 0) {
        return bad_usage("the number of ranks is missing: -n N");
    }
    if (optind >= argc) {
        return bad_usage("no program to run");
    }
    if (p->options.nodes > p->options.ranks) {
        return bad_usage("%u ranks cannot be spread over %u nodes: --nodes takes 1 to %u",
                         p->options.ranks, p->options.nodes, p->options.ranks);
    }
    p->options.argv = argv + optind;
    return 0;
}

int sfab_cmd_run(int argc, char **argv)
{
    struct parsed p = {.options = {.name = "sfab run", .timeout_ns = -1}};
    p.env = calloc((size_t)argc + 1, sizeof *p.env);
    if (p.env == NULL) {
        fputs("sfab run: no memory\n", stderr);
        return SFAB_RUN_EXIT_TROUBLE;
    }
    p.options.env = p.env;
    int status = parse(argc, argv, &p);
    if (status == 0 && p.help) {
        fputs(help_text, stdout);
    } else if (status == 0) {
        status = sfab_run_ranks(&p.options);
    }
    free(p.env);
    return status;
}
