/* arena.h - a rank's sync memory: what peers may look at and write to at any time.
 *
 * One shared, registered segment a rank. It begins with the head below, which every rank of the job
 * can read; behind it each group has a block of epoch words (its layout is the collectives' affair).
 * Epoch words only grow, each has one writer, and each sits in a cache line of its own. */
#ifndef SFAB_FABRIC_ARENA_H
#define SFAB_FABRIC_ARENA_H

#include <stdatomic.h>
#include <stdint.h>

#define SFAB_CACHE_LINE  64
#define SFAB_ARENA_MAGIC UINT64_C(0x31304241464e5953) /* "SYNFAB01" */

/* Who this is: written once, before the rank joins the job. */
struct sfab_arena_id {
    uint64_t magic;
    uint64_t incarnation; /* random, new in every sfab_open */
    uint32_t rank, size;
    uint32_t pid, reserved;
    uint64_t pad[4];
};

/* Sleeping and waking among the ranks of a host (fabric/shm/doorbell.h). */
struct sfab_arena_doorbell {
    _Atomic uint32_t rings; /* futex word: grows by one each time somebody wakes the owner */
    _Atomic uint32_t
        sleeping; /* 1 while the owner sleeps or is about to; written by the owner only */
    uint64_t pad[7];
};

struct sfab_arena_head {
    struct sfab_arena_id id;
    struct sfab_arena_doorbell doorbell;
};

_Static_assert(sizeof(struct sfab_arena_id) == SFAB_CACHE_LINE, "one line");
_Static_assert(sizeof(struct sfab_arena_doorbell) == SFAB_CACHE_LINE, "one line");

#endif
