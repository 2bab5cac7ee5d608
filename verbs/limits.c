/* limits.c - how much memory this process may lock.
 *
 * Registration pins memory, and a low limit (`ulimit -l`) is the commonest reason for it to fail;
 * the device's own error, "Cannot allocate memory", says nothing of that. */
#include "verbs/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define CAP_IPC_LOCK_BIT 14 /* linux/capability.h: such a process has no limit */

/* The number after `name:` in /proc/self/status, 0 where there is none. */
static uint64_t status_field(const char *name, int base)
{
    char line[256];
    uint64_t value = 0;
    size_t name_len = strlen(name);
    FILE *file = fopen("/proc/self/status", "re");

    if (file == NULL)
        return 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, name_len) == 0 && line[name_len] == ':')
            value = strtoull(line + name_len + 1, NULL, base);
    fclose(file);
    return value;
}

uint64_t sfab_vb_memlock_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    if ((status_field("CapEff", 16) >> CAP_IPC_LOCK_BIT & 1) != 0)
        return UINT64_MAX;
    return limit.rlim_cur;
}

uint64_t sfab_vb_memlock_used(void)
{
    return status_field("VmPin", 10) * 1024;
}

int sfab_vb_memlock_check(uint64_t more_bytes, const char *what, struct sfab_err *err)
{
    uint64_t limit = sfab_vb_memlock_limit();
    uint64_t used = sfab_vb_memlock_used();

    if (limit == UINT64_MAX || (used <= limit && more_bytes <= limit - used))
        return 0;
    return sfab_fail(err, -ENOMEM,
                     "%s needs %llu KiB of locked memory beside the %llu KiB in use, but the limit "
                     "is %llu KiB: raise it to at least %llu KiB (ulimit -l, or memlock in "
                     "/etc/security/limits.conf; LimitMEMLOCK= for a service)",
                     what, (unsigned long long)(more_bytes + 1023) / 1024,
                     (unsigned long long)used / 1024, (unsigned long long)limit / 1024,
                     (unsigned long long)(used + more_bytes + 1023) / 1024);
}
