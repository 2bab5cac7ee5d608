/* doorbell.c - the system calls behind doorbell.h: futex(2) and membarrier(2). */
#include "fabric/doorbell.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* 0: not tried yet, 1: works, 2: not here. Written with the same value by whoever comes first. */
static _Atomic int membarrier_state;

void sfab_doorbell_setup(void)
{
    long rc = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0);

    atomic_store_explicit(&membarrier_state, rc == 0 ? 1 : 2, memory_order_relaxed);
}

bool sfab_doorbell_reliable(void)
{
    return atomic_load_explicit(&membarrier_state, memory_order_relaxed) == 1;
}

void sfab_doorbell_wake(struct sfab_arena_doorbell *bell)
{
    atomic_fetch_add_explicit(&bell->rings, 1, memory_order_release);
    syscall(SYS_futex, &bell->rings, FUTEX_WAKE, 1, NULL, NULL, 0);
}

uint32_t sfab_doorbell_prepare(struct sfab_arena_doorbell *bell)
{
    uint32_t ticket = atomic_load_explicit(&bell->rings, memory_order_acquire);

    atomic_store_explicit(&bell->sleeping, 1, memory_order_seq_cst);
    /* BELL-B, the pair of BELL-A: after this, either the writer's look at `sleeping` sees 1 or our
     * look at its word sees the store. */
    if (sfab_doorbell_reliable())
        syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
    atomic_thread_fence(memory_order_seq_cst);
    return ticket;
}

void sfab_doorbell_sleep(struct sfab_arena_doorbell *bell, uint32_t ticket, uint64_t timeout_ns)
{
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000u),
                               .tv_nsec = (long)(timeout_ns % 1000000000u)};

    syscall(SYS_futex, &bell->rings, FUTEX_WAIT, ticket, &timeout, NULL, 0);
}

void sfab_doorbell_done(struct sfab_arena_doorbell *bell)
{
    atomic_store_explicit(&bell->sleeping, 0, memory_order_relaxed);
}
