/* run_path.c - finding the program, once, so that a misspelt one is told once and not by every
 * rank. */
#include "tools/run_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* 0 when path is a file that may be executed, else the errno that exec would give. */
static int try_path(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        return errno;
    }
    if (S_ISDIR(st.st_mode) || access(path, X_OK) != 0) {
        return EACCES;
    }
    return 0;
}

int sfab_run_find(const char *program, char *path)
{
    if (program[0] == '\0') {
        return ENOENT;
    }
    if (strchr(program, '/') != NULL) {
        int n = snprintf(path, PATH_MAX, "%s", program);
        return n < 0 || n >= PATH_MAX ? ENAMETOOLONG : try_path(path);
    }
    const char *dirs = getenv("PATH");
    if (dirs == NULL) {
        dirs = "/usr/local/bin:/usr/bin:/bin";
    }
    int status = ENOENT;
    while (status != 0 && dirs != NULL) {
        size_t len = strcspn(dirs, ":");
        /* An empty part of PATH is the current directory. */
        int n = len == 0 ? snprintf(path, PATH_MAX, "./%s", program)
                         : snprintf(path, PATH_MAX, "%.*s/%s", (int)len, dirs, program);
        int found = n < 0 || n >= PATH_MAX ? ENAMETOOLONG : try_path(path);
        if (found == 0 || found == EACCES) {
            status = found; /* refused here may be allowed further on; if not, that is the reason */
        }
        dirs = dirs[len] == ':' ? dirs + len + 1 : NULL;
    }
    return status;
}
