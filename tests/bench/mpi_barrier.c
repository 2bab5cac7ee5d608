/* mpi_barrier.c - MPI_Barrier, timed the way `sfab bench barrier` times its own (tools/bench_barrier.c,
 * tools/bench_report.c): the same warm-up, the same choice of a batch, the same figures of each rank and
 * over the ranks, the same JSON fields. tests/bench/compare runs both and holds them side by side.
 *
 *     mpirun -n N mpi_barrier [--iterations I] [--batch B] [--transport NAME] [--own-cpu]
 *
 * NAME goes into the report only: mpirun's options choose what MPI uses. --own-cpu ends the run unless
 * every rank is bound to one CPU that no other rank has. One line on standard output, from rank 0. */
#include <errno.h>
#include <math.h>
#include <mpi.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct options {
    uint64_t iterations, batch;
    const char *transport;
    bool own_cpu;
};

struct figures {
    double min_ns, p50_ns, mean_ns, p99_ns, max_ns;
};

enum { FIGURES = sizeof(struct figures) / sizeof(double) };

static double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* ---- options ----------------------------------------------------------------------------- */

static uint64_t number(const char *option, const char *text)
{
    char *end = NULL;

    errno = 0;
    unsigned long long value = text != NULL ? strtoull(text, &end, 10) : 0;
    if (text == NULL || text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 ||
        value == 0 || value > 1000000000) {
        fprintf(stderr,
                "mpi_barrier: %s \"%s\" cannot be used: it takes a whole number from 1 to %d\n",
                option, text != NULL ? text : "", 1000000000);
        exit(2);
    }
    return value;
}

static struct options parse(int argc, char **argv)
{
    struct options o = {.iterations = 100000, .transport = "mpi"};

    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;

        if (strcmp(argv[i], "--own-cpu") == 0) {
            o.own_cpu = true;
        } else if (strcmp(argv[i], "--iterations") == 0) {
            o.iterations = number(argv[i++], value);
        } else if (strcmp(argv[i], "--batch") == 0) {
            o.batch = number(argv[i++], value);
        } else if (strcmp(argv[i], "--transport") == 0 && value != NULL &&
                   strpbrk(value, "\"\\") == NULL) {
            o.transport = argv[++i];
        } else {
            fprintf(stderr,
                    "mpi_barrier: \"%s\" is no option, or its value is missing or unusable\n",
                    argv[i]);
            exit(2);
        }
    }
    return o;
}

/* ---- where the ranks run ----------------------------------------------------------------- */

/* The CPU that this process alone may run on; -1 where it may run on several. */
static int bound_cpu(void)
{
    cpu_set_t set;
    size_t cpu = 0;

    if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) != 1)
        return -1;
    while (!CPU_ISSET(cpu, &set))
        cpu++;
    return (int)cpu;
}

/* Whether each rank has a CPU to itself; the same answer on every rank. */
static bool each_has_a_cpu(int size)
{
    int *cpus = calloc((size_t)size, sizeof *cpus), mine = bound_cpu();
    bool good = cpus != NULL;

    if (!good)
        return false;
    MPI_Allgather(&mine, 1, MPI_INT, cpus, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) {
        good = good && cpus[i] >= 0;
        for (int j = 0; j < i; j++)
            good = good && cpus[i] != cpus[j];
    }
    free(cpus);
    return good;
}

/* ---- measuring --------------------------------------------------------------------------- */

static void run(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        MPI_Barrier(MPI_COMM_WORLD);
}

static double warm_up(const struct options *o)
{
    uint64_t count = o->iterations / 10;

    if (count > 10000)
        count = 10000;
    run(3); /* connections */
    double start = now_ns();
    run(count + 1);
    return (now_ns() - start) / (double)(count + 1);
}

static uint64_t agree_batch(const struct options *o, double op_ns)
{
    /* A clock reading costs some 30 ns: below 1 % of a sample of 10 us. */
    uint64_t want = op_ns < 5000 ? (uint64_t)ceil(10000 / (op_ns > 1 ? op_ns : 1)) : 1;

    if (want > 1000)
        want = 1000;
    if (o->batch != 0)
        want = o->batch;
    if (want > o->iterations)
        want = o->iterations;
    MPI_Allreduce(MPI_IN_PLACE, &want, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    return want;
}

static void measure(double *samples, uint64_t count, uint64_t batch)
{
    for (uint64_t i = 0; i < count; i++) {
        double start = now_ns();

        run(batch);
        samples[i] = (now_ns() - start) / (double)batch;
    }
}

/* ---- reporting --------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static struct figures figures(double *samples, uint64_t count)
{
    struct figures f;
    double sum = 0;

    qsort(samples, count, sizeof *samples, compare);
    for (uint64_t i = 0; i < count; i++)
        sum += samples[i];
    f.min_ns = samples[0];
    f.p50_ns = (samples[(count - 1) / 2] + samples[count / 2]) / 2;
    f.mean_ns = sum / (double)count;
    f.p99_ns = samples[(uint64_t)((double)(count - 1) * 0.99)];
    f.max_ns = samples[count - 1];
    return f;
}

static void print_line(const struct options *o, const struct figures *of_rank, int size,
                       uint64_t samples, uint64_t batch)
{
    struct figures all = {.min_ns = of_rank[0].min_ns};
    int slowest = 0;

    for (int i = 0; i < size; i++) {
        all.min_ns = fmin(all.min_ns, of_rank[i].min_ns);
        all.max_ns = fmax(all.max_ns, of_rank[i].max_ns);
        all.p50_ns += of_rank[i].p50_ns / size;
        all.mean_ns += of_rank[i].mean_ns / size;
        all.p99_ns += of_rank[i].p99_ns / size;
        if (of_rank[i].mean_ns > of_rank[slowest].mean_ns)
            slowest = i;
    }
    printf(
        "{\"bench\":\"mpi_barrier\",\"transport\":\"%s\",\"algorithm\":\"MPI_Barrier\",\"radix\":0,"
        "\"rounds\":0,\"ranks\":%d,\"nodes\":1,\"iterations\":%llu,\"batch\":%llu,\"size_bytes\":0,"
        "\"min_ns\":%.1f,\"p50_ns\":%.1f,\"mean_ns\":%.1f,\"p99_ns\":%.1f,\"max_ns\":%.1f,"
        "\"slowest_rank\":%d,\"slowest_p50_ns\":%.1f,\"slowest_mean_ns\":%.1f}\n",
        o->transport, size, (unsigned long long)(samples * batch), (unsigned long long)batch,
        all.min_ns, all.p50_ns, all.mean_ns, all.p99_ns, all.max_ns, slowest,
        of_rank[slowest].p50_ns, of_rank[slowest].mean_ns);
}

static void report(const struct options *o, double *samples, uint64_t count, uint64_t batch)
{
    struct figures mine = figures(samples, count), *of_rank = NULL;
    int rank, size;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0) {
        of_rank = calloc((size_t)size, sizeof *of_rank);
        if (of_rank == NULL)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Gather(&mine, FIGURES, MPI_DOUBLE, of_rank, FIGURES, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 0)
        print_line(o, of_rank, size, count, batch);
    free(of_rank);
}

int main(int argc, char **argv)
{
    struct options o = parse(argc, argv);
    int size, rank, status = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double *samples = calloc(o.iterations, sizeof *samples);
    if (samples == NULL) {
        fprintf(stderr, "mpi_barrier: out of memory for %llu samples\n",
                (unsigned long long)o.iterations);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (o.own_cpu && !each_has_a_cpu(size)) {
        if (rank == 0)
            fprintf(stderr,
                    "mpi_barrier: the ranks are not bound to a CPU each: mpirun's --bind-to "
                    "did not do it\n");
        status = 1;
    } else {
        uint64_t batch = agree_batch(&o, warm_up(&o));

        measure(samples, o.iterations / batch, batch);
        report(&o, samples, o.iterations / batch, batch);
    }
    free(samples);
    MPI_Finalize();
    return status;
}
