/* commands.h - the subcommands; each gets its own name as argv[0] and returns the exit status. */
#ifndef SFAB_TOOLS_COMMANDS_H
#define SFAB_TOOLS_COMMANDS_H

int sfab_cmd_run(int argc, char **argv);
int sfab_cmd_bench(int argc, char **argv);
int sfab_cmd_sim(int argc, char **argv);
int sfab_cmd_info(int argc, char **argv);

#endif
