/* cmd_info.c - `sfab info`: what this machine offers, what would be used, and every setting. */
#include "tools/commands.h"

#include "syncfab/syncfab.h"

#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void show_transport(const char *transport, const char *device, int usable, const char *text,
                           void *arg)
{
    *(int *)arg += usable != 0;
    printf("  %-6s %-12s %-4s %s\n", transport, device, usable ? "yes" : "no", text);
}

static void show_setting(const char *name, const char *value, const char *origin, const char *help,
                         void *arg)
{
    (void)arg;
    printf("  %-24s %-14s %-12s %s\n", name, value[0] != '\0' ? value : "-", origin, help);
}

static void show_machine(void)
{
    cpu_set_t cpus;
    struct rlimit limit;
    char host[64] = "?";

    gethostname(host, sizeof host - 1);
    printf("machine\n  host %s, ", host);
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0)
        printf("%d CPUs for this process, ", CPU_COUNT(&cpus));
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0)
        printf("memlock unknown\n");
    else if (limit.rlim_cur == RLIM_INFINITY)
        printf("memlock unlimited\n");
    else
        printf("memlock %llu KiB (RDMA registers memory: `ulimit -l unlimited` is what clusters "
               "set)\n",
               (unsigned long long)limit.rlim_cur / 1024);
}

static int fail(void)
{
    char text[1024];

    sfab_last_error(NULL, text, sizeof text);
    fflush(stdout);
    fprintf(stderr, "sfab info: %s\n", text);
    return 1;
}

int sfab_cmd_info(int argc, char **argv)
{
    static const struct option options[] = {{"help", no_argument, NULL, 'h'}, {0}};
    int usable = 0, option;

    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (option != 'h')
            return 2;
        printf(
            "usage: sfab info\n\nShows the transports and devices of this machine, whether each "
            "would "
            "be used and why,\nand every SFAB_ variable with its value and where it comes from.\n");
        return 0;
    }
    printf("syncfab %s\n", sfab_version());
    show_machine();
    printf("transports and devices (usable or not, and why)\n");
    if (sfab_probe(show_transport, &usable) != 0)
        return fail();
    printf("settings (value, origin)\n");
    if (sfab_settings(NULL, show_setting, NULL) != 0)
        return fail();
    return usable > 0 ? 0 : 1;
}
