/* doorbell.h - sleeping until another rank of the host has written something, for free on its side.
 *
 * A writer stores its word and looks at the owner's `sleeping` flag; only if that is set does it make
 * a system call. The owner sets the flag, issues a barrier on every CPU with membarrier(2), looks at
 * its words once more, and sleeps on the futex word. So the price of the store-then-load order
 * (Dekker's problem) is paid by the one who is about to sleep, not by each write: the method of
 * userspace RCU (Desnoyers et al., 2012; membarrier(2)). Where membarrier is missing, naps are kept
 * short instead (sfab_doorbell_reliable says so). */
#ifndef SFAB_FABRIC_DOORBELL_H
#define SFAB_FABRIC_DOORBELL_H

#include "fabric/arena.h"
#include "fabric/cpu.h"

#include <stdbool.h>
#include <stdint.h>

/* Makes this process one that membarrier of other processes reaches. Once a process; cheap. */
void sfab_doorbell_setup(void);

/* Whether a write can be relied on to end a sleep; if not, keep sleeps below a millisecond. */
bool sfab_doorbell_reliable(void);

/* The cold half of sfab_doorbell_ring. */
void sfab_doorbell_wake(struct sfab_arena_doorbell *bell);

/* After the stores that the owner may be waiting for. Any rank, any thread; one load when nobody
 * sleeps. */
static inline void sfab_doorbell_ring(struct sfab_arena_doorbell *bell)
{
    /* BELL-A: the compiler must keep the caller's store before this load; the CPU is held to the same
     * by the sleeper's membarrier. */
    atomic_signal_fence(memory_order_seq_cst);
    if (SFAB_UNLIKELY(atomic_load_explicit(&bell->sleeping, memory_order_relaxed) != 0))
        sfab_doorbell_wake(bell);
}

/* The owner: about to sleep. Returns the ticket for sleep(). Look at all conditions again after it. */
uint32_t sfab_doorbell_prepare(struct sfab_arena_doorbell *bell);

/* The owner: sleeps until rung after prepare, or timeout_ns is over. */
void sfab_doorbell_sleep(struct sfab_arena_doorbell *bell, uint32_t ticket, uint64_t timeout_ns);

/* The owner: not sleeping any more (also after sleep). */
void sfab_doorbell_done(struct sfab_arena_doorbell *bell);

#endif
