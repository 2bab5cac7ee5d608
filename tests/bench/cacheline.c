/* cacheline.c - what two CPUs need to tell each other something through memory: the floor under any
 * barrier of two ranks, and a figure that tells where a virtual machine's CPUs were when the others
 * were measured (as threads of one core or on different ones: it differs by a factor of four).
 *
 *     cacheline
 *
 * Prints one JSON line: round_trip_ns, a word sent and answered; plain_barrier_ns, the barrier that does
 * nothing but store a word in the peer's line and wait for its own; medians, waiting with `pause`. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SAMPLES = 2000, BATCH = 100, APART_BYTES = 256 };

struct word {
    _Alignas(APART_BYTES) _Atomic uint64_t value;
};

/* One CPU's side. */
struct side {
    pthread_t thread;
    size_t cpu;
    int first; /* it begins the round trips */
    struct word *mine, *peers;
    double round_trip_ns[SAMPLES], barrier_ns[SAMPLES];
};

static struct word words[2];

static double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void tell(struct side *s, uint64_t value)
{
    atomic_store_explicit(&s->peers->value, value, memory_order_release);
}

static void hear(struct side *s, uint64_t value)
{
    while (atomic_load_explicit(&s->mine->value, memory_order_acquire) < value)
        cpu_relax();
}

static void *run(void *arg)
{
    struct side *s = arg;
    uint64_t value = 0;

    for (int i = 0; i < SAMPLES; i++) {
        double start = now_ns();

        for (int j = 0; j < BATCH; j++) {
            value++;
            if (s->first)
                tell(s, value);
            hear(s, value);
            if (!s->first)
                tell(s, value);
        }
        s->round_trip_ns[i] = (now_ns() - start) / BATCH;
    }
    for (int i = 0; i < SAMPLES; i++) {
        double start = now_ns();

        for (int j = 0; j < BATCH; j++) {
            tell(s, ++value);
            hear(s, value);
        }
        s->barrier_ns[i] = (now_ns() - start) / BATCH;
    }
    return NULL;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *samples)
{
    qsort(samples, SAMPLES, sizeof *samples, compare);
    return (samples[(SAMPLES - 1) / 2] + samples[SAMPLES / 2]) / 2;
}

static int start(struct side *s)
{
    pthread_attr_t attr;
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(s->cpu, &one);
    pthread_attr_init(&attr);
    pthread_attr_setaffinity_np(&attr, sizeof one, &one);
    int rc = pthread_create(&s->thread, &attr, run, s);
    pthread_attr_destroy(&attr);
    return rc;
}

int main(void)
{
    static struct side sides[2];
    cpu_set_t cpus;
    size_t cpu = 0;
    int rc = 0;

    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0 || CPU_COUNT(&cpus) < 2) {
        fprintf(stderr, "cacheline: it takes two CPUs; this process may not run on two\n");
        return 1;
    }
    for (int i = 0; rc == 0 && i < 2; i++) {
        while (!CPU_ISSET(cpu, &cpus))
            cpu++;
        sides[i].cpu = cpu++;
        sides[i].first = i == 0;
        sides[i].mine = &words[i];
        sides[i].peers = &words[1 - i];
        rc = start(&sides[i]);
    }
    if (rc != 0) {
        fprintf(stderr, "cacheline: a thread cannot be started on CPU %zu: %s\n", cpu - 1,
                strerror(rc));
        return 1; /* with the other one waiting for ever in it: the process's end ends it */
    }
    for (int i = 0; i < 2; i++)
        pthread_join(sides[i].thread, NULL);
    printf("{\"bench\":\"cacheline\",\"round_trip_ns\":%.1f,\"plain_barrier_ns\":%.1f}\n",
           median(sides[0].round_trip_ns), median(sides[0].barrier_ns));
    return 0;
}
