/* clock.h - the one clock that durations and deadlines are measured with. */
#ifndef SFAB_FABRIC_CLOCK_H
#define SFAB_FABRIC_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds of the monotonic clock; no system call where the vDSO has it. */
static inline uint64_t sfab_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
