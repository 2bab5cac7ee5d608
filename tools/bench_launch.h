/* bench_launch.h - starting `sfab bench` as the ranks of a job. */
#ifndef SFAB_TOOLS_BENCH_LAUNCH_H
#define SFAB_TOOLS_BENCH_LAUNCH_H

struct sfab_bench_launch {
    int ranks, nodes;
    const char *bind;            /* "cpu", "none"; NULL: cpu when there are enough CPUs */
    const char *const *settings; /* "SFAB_NAME=value" for the ranks, NULL at the end */
    long timeout_s;              /* 0: none */
};

/* argv is the subcommand's: argv[0] is "bench". Returns the exit status. */
int sfab_bench_launch(int argc, char **argv, const struct sfab_bench_launch *launch);

#endif
