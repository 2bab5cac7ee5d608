/* run_tree.c - killing and reaping everything that descends from this process.
 *
 * The process is a child subreaper: when one of its children is killed, that one's children become
 * its own. So killing all children until there are none reaches every descendant, also those that
 * have left their process group or session. */
#include "tools/run_impl.h"

#include "fabric/boot/net.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define AT_ONCE  1024 /* children looked at in one pass; the next pass finds more */
#define PAUSE_NS 2000000

/* Reads pids from a file of the form "12 345 6 ". False: there is no such file. */
static bool read_pids(const char *path, pid_t *pids, size_t cap, size_t *count)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    int pid;
    while (*count < cap && fscanf(file, "%d", &pid) == 1) {
        pids[(*count)++] = (pid_t)pid;
    }
    fclose(file);
    return true;
}

/* Parent of a process, from the field after the name's closing parenthesis; 0: gone. */
static pid_t parent_of(const char *pid_text)
{
    char path[64];
    char line[512];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid_text);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    if (fgets(line, sizeof line, file) != NULL) {
        const char *after_name = strrchr(line, ')');
        if (after_name == NULL || sscanf(after_name + 1, " %*c %d", &parent) != 1) {
            parent = 0;
        }
    }
    fclose(file);
    return (pid_t)parent;
}

/* For kernels without the children files. */
static size_t children_by_looking(pid_t *pids, size_t cap)
{
    size_t count = 0;
    DIR *proc = opendir("/proc");
    if (proc == NULL) {
        return 0;
    }
    for (struct dirent *e = readdir(proc); e != NULL && count < cap; e = readdir(proc)) {
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && parent_of(e->d_name) == getpid()) {
            pids[count++] = (pid_t)atoi(e->d_name);
        }
    }
    closedir(proc);
    return count;
}

size_t sfab_run_children(pid_t *pids, size_t cap)
{
    size_t count = 0;
    bool known = false;
    DIR *tasks = opendir("/proc/self/task");
    if (tasks == NULL) {
        return children_by_looking(pids, cap);
    }
    for (struct dirent *e = readdir(tasks); e != NULL; e = readdir(tasks)) {
        char path[64];
        if (e->d_name[0] != '.') {
            snprintf(path, sizeof path, "/proc/self/task/%.20s/children", e->d_name);
            known = read_pids(path, pids, cap, &count) || known;
        }
    }
    closedir(tasks);
    return known ? count : children_by_looking(pids, cap);
}

static bool is_spared(pid_t pid, const pid_t *spare, size_t spare_count)
{
    for (size_t i = 0; i < spare_count; i++) {
        if (spare[i] == pid) {
            return true;
        }
    }
    return false;
}

/* One pass; how many children it found that have to go. */
static size_t kill_children(const pid_t *spare, size_t spare_count)
{
    pid_t pids[AT_ONCE];
    size_t found = 0;
    size_t count = sfab_run_children(pids, AT_ONCE);
    for (size_t i = 0; i < count; i++) {
        if (is_spared(pids[i], spare, spare_count)) {
            continue;
        }
        found++;
        /* A child that is not reaped yet keeps its number, so this hits nobody else. */
        kill(pids[i], SIGKILL);
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_spared(pids[i], spare, spare_count)) {
            waitpid(pids[i], NULL, WNOHANG);
        }
    }
    return found;
}

bool sfab_run_kill_tree(const pid_t *spare, size_t spare_count, uint64_t timeout_ns)
{
    uint64_t deadline_ns = sfab_deadline_ns(sfab_now_ns(), timeout_ns);
    while (kill_children(spare, spare_count) > 0) {
        if (sfab_now_ns() >= deadline_ns) {
            return false;
        }
        struct timespec pause = {.tv_nsec = PAUSE_NS};
        nanosleep(&pause, NULL);
    }
    return true;
}
