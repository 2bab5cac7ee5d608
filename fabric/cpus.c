/* cpus.c - matching ranks to CPUs. */
#include "fabric/cpus.h"

#include <sched.h>
#include <string.h>

struct matching {
    const struct sfab_cpu_mask *const *masks;
    uint32_t owner[SFAB_CPUS_MAX]; /* rank index + 1 that has this CPU; 0: free */
    uint64_t tried[SFAB_CPUS_MAX / 64];
};

static bool allowed(const struct sfab_cpu_mask *mask, uint32_t cpu)
{
    return (mask->bits[cpu / 64] >> (cpu % 64) & 1) != 0;
}

/* Finds a CPU for rank, moving others along. Recursion is as deep as the chain of moves, at most the
 * number of CPUs. */
static bool place(struct matching *m, uint32_t rank)
{
    for (uint32_t cpu = 0; cpu < SFAB_CPUS_MAX; cpu++) {
        if (!allowed(m->masks[rank], cpu) || (m->tried[cpu / 64] >> (cpu % 64) & 1) != 0)
            continue;
        m->tried[cpu / 64] |= UINT64_C(1) << (cpu % 64);
        if (m->owner[cpu] == 0 || place(m, m->owner[cpu] - 1)) {
            m->owner[cpu] = rank + 1;
            return true;
        }
    }
    return false;
}

uint32_t sfab_cpus_fit(const struct sfab_cpu_mask *const *masks, uint32_t count)
{
    struct matching m = {.masks = masks};
    uint32_t placed = 0;

    for (uint32_t rank = 0; rank < count; rank++) {
        memset(m.tried, 0, sizeof m.tried);
        if (place(&m, rank))
            placed++;
    }
    return placed;
}

void sfab_cpus_mine(struct sfab_cpu_mask *mask)
{
    cpu_set_t set;

    memset(mask, 0, sizeof *mask);
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        memset(mask, 0xff, sizeof *mask);
        return;
    }
    for (unsigned cpu = 0; cpu < SFAB_CPUS_MAX && cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set))
            mask->bits[cpu / 64] |= UINT64_C(1) << (cpu % 64);
}
