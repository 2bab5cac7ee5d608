/* switch.c - what it takes to let every process run once where they outnumber the CPUs: the floor under
 * any barrier there.
 *
 *     switch N
 *
 * N processes, bound to this process's CPUs in turn so that all are busy as in a barrier, do nothing but
 * yield. From one yield of a process to its return every other one of its CPU has run: that many
 * context switches. (A ring in which each yields until a token comes to it counts several switches as
 * one where the ring's order is not the scheduler's.)
 *
 * Prints one JSON line: round_ns, the median time for all of a CPU to run once (N/CPUs switches);
 * switch_ns, one of those; counted_ns, the mean by the kernel's own count of switches; switches, that
 * count by yield, which is about 1 if the scheduler did what was asked. */
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { YIELDS = 4000, PROCESSES_MAX = 1024 };

/* Shared by all. */
struct board {
    atomic_int ready, finished;
    double elapsed_ns[PROCESSES_MAX];
    long switches[PROCESSES_MAX];
    double samples[];
};

static double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static long switches_so_far(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw + usage.ru_nivcsw;
}

/* Binds this process to the index-th CPU of those allowed, round and round. */
static int bind_to(const cpu_set_t *allowed, int index)
{
    int skip = index % CPU_COUNT(allowed);
    cpu_set_t one;
    size_t cpu = 0;

    while (!CPU_ISSET(cpu, allowed) || skip-- > 0)
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof one, &one);
}

static void yield_until(atomic_int *count, int value)
{
    while (atomic_load(count) < value)
        sched_yield();
}

static void yield_often(struct board *board, int index, int processes)
{
    double *samples = board->samples + (size_t)index * YIELDS;

    for (int i = 0; i < YIELDS; i++)
        samples[i] = 0; /* the pages are there */
    atomic_fetch_add(&board->ready, 1);
    yield_until(&board->ready, processes);
    long switches = switches_so_far();
    double begin = now_ns(), last = begin;
    for (int i = 0; i < YIELDS; i++) {
        sched_yield();
        double now = now_ns();

        samples[i] = now - last;
        last = now;
    }
    board->elapsed_ns[index] = last - begin;
    board->switches[index] = switches_so_far() - switches;
    /* Who is done keeps its turn until all are: the others' rounds stay as long. */
    atomic_fetch_add(&board->finished, 1);
    yield_until(&board->finished, processes);
}

/* All of them have ended well. */
static int run(struct board *board, const cpu_set_t *cpus, int processes)
{
    int started = 0, good = 1, status;

    for (; started < processes; started++) {
        pid_t pid = fork();

        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (bind_to(cpus, started) != 0)
                _exit(1);
            yield_often(board, started, processes);
            _exit(0);
        }
        if (pid < 0) {
            perror("switch: fork");
            exit(1); /* those that wait for the rest die with this process */
        }
    }
    while (wait(&status) > 0)
        good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return good;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void report(struct board *board, int processes, int cpus)
{
    size_t count = (size_t)processes * YIELDS;
    double on_a_cpu = (double)processes / cpus, elapsed_ns = 0, switches = 0;

    qsort(board->samples, count, sizeof board->samples[0], compare);
    for (int i = 0; i < processes; i++) {
        elapsed_ns += board->elapsed_ns[i] / processes;
        switches += (double)board->switches[i];
    }
    printf(
        "{\"bench\":\"switch\",\"processes\":%d,\"cpus\":%d,\"round_ns\":%.1f,\"switch_ns\":%.1f,"
        "\"counted_ns\":%.1f,\"switches\":%.3f}\n",
        processes, cpus, board->samples[count / 2], board->samples[count / 2] / on_a_cpu,
        elapsed_ns * cpus / switches, switches / (double)count);
}

int main(int argc, char **argv)
{
    int processes = argc == 2 ? atoi(argv[1]) : 0;
    cpu_set_t cpus;

    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0 || processes <= CPU_COUNT(&cpus) ||
        processes > PROCESSES_MAX) {
        fprintf(stderr, "usage: switch N: more processes than CPUs, at most %d\n", PROCESSES_MAX);
        return 2;
    }
    size_t bytes = sizeof(struct board) + (size_t)processes * YIELDS * sizeof(double);
    struct board *board =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED) {
        perror("switch: no shared memory");
        return 1;
    }
    if (!run(board, &cpus, processes)) {
        fprintf(stderr, "switch: a process could not be bound to its CPU, or was killed\n");
        return 1;
    }
    report(board, processes, CPU_COUNT(&cpus));
    return 0;
}
