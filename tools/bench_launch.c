/* bench_launch.c - `sfab bench` outside a job: runs itself as the ranks. */
#include "tools/bench_launch.h"
#include "tools/run.h"

#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int cpus(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

int sfab_bench_launch(int argc, char **argv, const struct sfab_bench_launch *launch)
{
    char **again = calloc((size_t)argc + 3, sizeof *again);
    bool bind = launch->bind != NULL ? strcmp(launch->bind, "cpu") == 0 : launch->ranks <= cpus();
    struct sfab_run_options options = {
        .name = "sfab bench",
        .ranks = (uint32_t)launch->ranks,
        .nodes = launch->nodes > 1 ? (uint32_t)launch->nodes : 0,
        .bind = bind ? SFAB_RUN_BIND_CPU : SFAB_RUN_BIND_NONE,
        .timeout_ns = launch->timeout_s > 0 ? launch->timeout_s * INT64_C(1000000000) : -1,
        .env = launch->settings,
        .argv = again};

    if (again == NULL)
        return SFAB_RUN_EXIT_TROUBLE;
    /* The name that leads to this very program, whatever the caller's PATH says. */
    again[0] = (char *)"/proc/self/exe";
    memcpy(again + 1, argv, (size_t)argc * sizeof *argv);
    int status = sfab_run_ranks(&options);
    free(again);
    return status;
}
