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

/* What the rank is at, for those that wait for it: the beat by its control thread, which runs while the
 * process does, whatever its owner thread is doing. */
struct sfab_arena_status {
    _Atomic uint64_t beat; /* its host's monotonic clock, at least every SFAB_BEAT_NS */
    _Atomic uint64_t
        still_ns; /* at the last beat: since it last started or finished an episode, or began
                                  or ended a wait */
    _Atomic uint64_t
        doing; /* SFAB_AT_COMPUTE, or SFAB_AT_WAIT + 1 + the rank it waits for, + 0: none in
                                  particular; by the owner thread */
    uint64_t pad[5];
};

#define SFAB_BEAT_NS    UINT64_C(150000000)
#define SFAB_AT_COMPUTE UINT64_C(0)
#define SFAB_AT_WAIT    (UINT64_C(1) << 32)

struct sfab_arena_head {
    struct sfab_arena_id id;
    struct sfab_arena_doorbell doorbell;
    struct sfab_arena_status status;
};

_Static_assert(sizeof(struct sfab_arena_id) == SFAB_CACHE_LINE, "one line");
_Static_assert(sizeof(struct sfab_arena_status) == SFAB_CACHE_LINE, "one line");
_Static_assert(sizeof(struct sfab_arena_doorbell) == SFAB_CACHE_LINE, "one line");

#endif
