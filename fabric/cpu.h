/* cpu.h - what a spinning loop needs of the processor. */
#ifndef SFAB_FABRIC_CPU_H
#define SFAB_FABRIC_CPU_H

#define SFAB_LIKELY(x)   __builtin_expect(!!(x), 1)
#define SFAB_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Tells the core that this is a spin loop: frees the sibling thread, and spares the cache line the
 * flood of reads that would slow the writer. */
static inline void sfab_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb" ::: "memory");
#else
    __asm__ __volatile__("" ::: "memory");
#endif
}

#endif
