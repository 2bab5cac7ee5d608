/* main.c - the command: finds the subcommand and says what there is. */
#include "tools/commands.h"

#include "syncfab/syncfab.h"

#include <stdio.h>
#include <string.h>

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
};

static const struct command commands[] = {
    {"run", sfab_cmd_run, "start N ranks of a program on this machine"},
    {"bench", sfab_cmd_bench, "measure barrier, put, get, atomic, switch"},
    {"sim", sfab_cmd_sim, "predict a barrier among up to 65536 ranks on a LogGP network"},
    {"info", sfab_cmd_info, "show transports, devices and settings, and why each was chosen"},
};

static void usage(FILE *out)
{
    fprintf(out, "usage: sfab COMMAND [OPTIONS]\n\n");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        fprintf(out, "  %-7s %s\n", commands[i].name, commands[i].help);
    fprintf(out, "\n`sfab COMMAND --help` tells more. syncfab %s\n", sfab_version());
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        usage(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        usage(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("sfab %s\n", sfab_version());
        return 0;
    }
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "sfab: there is no command \"%s\"; `sfab --help` lists them\n", argv[1]);
    return 2;
}
