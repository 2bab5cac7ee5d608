/* log.c - one line on stderr, written in one piece so that lines of several ranks do not mix. */
#include "fabric/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES    2048
#define LEVEL_UNKNOWN (-1)

/* Unknown until somebody sets it or the first line asks the environment. Any order will do: it only
 * decides what is shown. */
static _Atomic int log_level = LEVEL_UNKNOWN;

static _Thread_local char log_name[96];

void sfab_log_set_level(enum sfab_log_level level)
{
    atomic_store_explicit(&log_level, (int)level, memory_order_relaxed);
}

void sfab_log_set_name(const char *name)
{
    snprintf(log_name, sizeof log_name, "%s", name != NULL ? name : "");
}

static int level_from_environment(void)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    const char *wanted = getenv("SFAB_LOG");
    for (int i = 0; wanted != NULL && i < (int)(sizeof names / sizeof names[0]); i++) {
        if (strcmp(wanted, names[i]) == 0) {
            return i;
        }
    }
    return SFAB_LOG_WARN; /* a bad value is the configuration's to refuse */
}

static int current_level(void)
{
    int level = atomic_load_explicit(&log_level, memory_order_relaxed);
    if (level == LEVEL_UNKNOWN) {
        int found = level_from_environment();
        /* Loses against a concurrent sfab_log_set_level, as it should. */
        if (atomic_compare_exchange_strong_explicit(&log_level, &level, found, memory_order_relaxed,
                                                    memory_order_relaxed)) {
            level = found;
        }
    }
    return level;
}

static void write_all(const char *at, size_t left)
{
    while (left > 0) {
        ssize_t n = write(STDERR_FILENO, at, left);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return; /* nobody to tell */
        }
        at += n;
        left -= (size_t)n;
    }
}

void sfab_log(enum sfab_log_level level, const char *format, ...)
{
    int saved = errno; /* callers format errno after logging */
    if ((int)level > current_level()) {
        return;
    }
    char line[LINE_BYTES];
    int used = log_name[0] != '\0' ? snprintf(line, sizeof line, "syncfab[%s]: ", log_name)
                                   : snprintf(line, sizeof line, "syncfab: ");
    va_list args;
    va_start(args, format);
    int more = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, args);
    va_end(args);
    if (more >= 0) {
        size_t len = strnlen(line, sizeof line - 2);
        line[len] = '\n';
        write_all(line, len + 1);
    }
    errno = saved;
}
