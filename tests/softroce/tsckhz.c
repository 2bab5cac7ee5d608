/*
 * tsckhz: prints the frequency of this machine's time-stamp counter in kHz.
 *
 * QEMU's emulated CPU hands the host's counter to the guest, but the microvm machine has no
 * timer against which the guest's kernel could calibrate it; so the kernel is told the frequency
 * on its command line (tsc_early_khz). The counter is read beside CLOCK_MONOTONIC_RAW before and
 * after a short sleep; of several tries the one with the tightest pairs of readings counts.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

enum { TRIES = 3, SLEEP_NS = 20 * 1000 * 1000 };

struct reading {
    double mid_ns;  /* clock, half way between the readings around the counter's */
    double slop_ns; /* how far apart those two were */
    unsigned long long ticks;
};

static double clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static struct reading read_both(void)
{
    double before_ns = clock_ns();
    unsigned long long ticks = __rdtsc();
    double after_ns = clock_ns();
    return (struct reading){(before_ns + after_ns) / 2, after_ns - before_ns, ticks};
}

int main(void)
{
    double best_slop_ns = 1e18;
    double khz = 0;
    for (int i = 0; i < TRIES; i++) {
        const struct timespec nap = {0, SLEEP_NS};
        struct reading first = read_both();
        nanosleep(&nap, NULL);
        struct reading last = read_both();
        double slop_ns = first.slop_ns + last.slop_ns;
        if (slop_ns < best_slop_ns) {
            best_slop_ns = slop_ns;
            khz = (double)(last.ticks - first.ticks) / (last.mid_ns - first.mid_ns) * 1e6;
        }
    }
    return printf("%.0f\n", khz) > 0 ? 0 : 1;
}
