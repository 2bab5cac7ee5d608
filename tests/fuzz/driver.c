/* driver.c - runs a fuzz target without a fuzzing engine: on each file of its seed corpus, then on
 * a bounded number of random mutations of them. Repeatable: the same mutations in every run.
 *
 *     fuzz_NAME CORPUS_FOLDER [MUTATIONS [FIRST]]     (200000 from number 0)
 *     fuzz_NAME FILE                                  (that input alone)
 *
 * Each mutation depends on its number only, so a failing one is repeated by MUTATIONS 1 FIRST its
 * number; its bytes are also left in ./fuzz-failure. Inputs are passed in memory of exactly their
 * size, so that a sanitizer sees a read past the end. */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Not every target counts. */
extern unsigned long sfab_fuzz_taken __attribute__((weak));
/* There where a sanitizer is. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

enum { SEEDS_MAX = 256, SEED_BYTES_MAX = 65536, GROWTH_BYTES = 512 };

struct bytes {
    uint8_t *data;
    size_t len;
};

static struct bytes seeds[SEEDS_MAX];
static size_t seed_count;

/* The input that is running. */
static struct bytes current;
static unsigned long long current_number;
static int current_is_seed;

static void keep_failure(void)
{
    static const char name[] = "fuzz-failure";
    char text[160];
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    int kept = fd >= 0 && write(fd, current.data, current.len) == (ssize_t)current.len;
    int len = snprintf(text, sizeof text, "FAILED: %s %llu, %zu bytes%s%s\n",
                       current_is_seed ? "seed" : "mutation", current_number, current.len,
                       kept ? ", kept in " : "", kept ? name : "");

    if (len > 0 && write(STDERR_FILENO, text, (size_t)len) < 0)
        _exit(1);
}

static void on_signal(int number)
{
    keep_failure();
    signal(number, SIG_DFL);
    raise(number);
}

static void catch_failures(void)
{
    static const int signals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM};

    if (__sanitizer_set_death_callback != NULL)
        __sanitizer_set_death_callback(keep_failure);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        signal(signals[i], on_signal);
}

static void run(const uint8_t *data, size_t len, unsigned long long number, int is_seed)
{
    struct bytes exact = {.data = calloc(1, len > 0 ? len : 1), .len = len};

    MUST(exact.data != NULL);
    if (len > 0)
        memcpy(exact.data, data, len);
    current = exact;
    current_number = number;
    current_is_seed = is_seed;
    if (number % 1024 == 0)
        alarm(60); /* so many inputs take a fraction of a second: one of them hangs */
    LLVMFuzzerTestOneInput(exact.data, len);
    MUST(len == 0 || memcmp(exact.data, data, len) == 0); /* inputs are not ours to change */
    free(exact.data);
}

static int read_seed(const char *path)
{
    struct bytes seed = {.data = malloc(SEED_BYTES_MAX)};
    FILE *file = fopen(path, "rb");
    int bad = file == NULL || seed.data == NULL;

    if (!bad) {
        seed.len = fread(seed.data, 1, SEED_BYTES_MAX, file);
        bad = ferror(file) || !feof(file);
    }
    if (file != NULL)
        fclose(file);
    if (bad || seed_count == SEEDS_MAX) {
        fprintf(stderr, "FAILED: %s cannot be used as a seed (at most %d of %d bytes)\n", path,
                SEEDS_MAX, SEED_BYTES_MAX - 1);
        free(seed.data);
        return 1;
    }
    seeds[seed_count++] = seed;
    return 0;
}

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* In the order of their names: mutations are numbered by it. */
static int read_corpus(const char *folder)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, visible, alphasort), bad = count < 0;

    for (int i = 0; i < count; i++) {
        char path[4096];

        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        bad = read_seed(path) || bad;
        free(entries[i]);
    }
    if (count < 0)
        fprintf(stderr, "FAILED: the corpus %s cannot be read: %s\n", folder, strerror(errno));
    else
        free(entries);
    return bad;
}

/* splitmix64 (Steele, Lea and Flood 2014): good enough from any seed, even consecutive ones. */
static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static size_t below(uint64_t *state, size_t limit)
{
    return limit > 0 ? (size_t)(next(state) % limit) : 0;
}

/* Removes `gone` bytes at `at` and opens a gap of `come` there. */
static void replace(struct bytes *b, size_t at, size_t gone, size_t come)
{
    memmove(b->data + at + come, b->data + at + gone, b->len - at - gone);
    b->len += come - gone;
}

/* A value that bounds checks get wrong, over 1, 2, 4 or 8 bytes, either end first. */
static void put_edge(struct bytes *b, uint64_t *state)
{
    static const uint64_t edges[] = {0,          1,          0x7f,       0x80,      0xff,
                                     0x100,      0x7fff,     0x8000,     0xffff,    0x10000,
                                     0x7fffffff, 0x80000000, 0xffffffff, UINT64_MAX};
    size_t width = (size_t)1 << below(state, 4);
    uint64_t value = edges[below(state, sizeof edges / sizeof edges[0])];
    int backwards = (int)below(state, 2);

    if (b->len < width)
        return;
    uint8_t *at = b->data + below(state, b->len - width + 1);
    for (size_t i = 0; i < width; i++)
        at[backwards ? width - 1 - i : i] = (uint8_t)(value >> (8 * i));
}

static void insert_some(struct bytes *b, uint64_t *state, size_t cap, const struct bytes *from)
{
    size_t count = 1 + below(state, 16), at = below(state, b->len + 1);
    size_t start = below(state, from->len);

    if (count > cap - b->len)
        return;
    replace(b, at, 0, count);
    for (size_t i = 0; i < count; i++)
        b->data[at + i] = start + i < from->len ? from->data[start + i] : (uint8_t)next(state);
}

static void mutate(struct bytes *b, uint64_t *state, size_t cap)
{
    size_t at = below(state, b->len), count = 1 + below(state, 8);

    switch (below(state, 7)) {
    case 0:
        if (b->len > 0)
            b->data[at] ^= (uint8_t)(1u << below(state, 8));
        break;
    case 1:
        if (b->len > 0)
            b->data[at] = (uint8_t)next(state);
        break;
    case 2:
        put_edge(b, state);
        break;
    case 3:
        replace(b, at, count < b->len - at ? count : b->len - at, 0);
        break;
    case 4:
        if (below(state, 4) == 0)
            b->len = below(state, b->len + 1);
        break;
    case 5:
        insert_some(b, state, cap, &seeds[below(state, seed_count)]);
        break;
    default:
        if (b->len > 0)
            b->data[at] = (uint8_t)(b->data[at] + (below(state, 2) ? 1 : -1));
        break;
    }
}

static void run_mutation(unsigned long long number, uint8_t *buffer, size_t cap)
{
    uint64_t state = number;
    const struct bytes *seed = &seeds[below(&state, seed_count)];
    struct bytes b = {.data = buffer, .len = seed->len};
    size_t steps = 1 + below(&state, 6);

    memcpy(buffer, seed->data, seed->len);
    while (steps-- > 0)
        mutate(&b, &state, cap);
    run(b.data, b.len, number, 0);
}

/* How many were taken, where the target counts. */
static unsigned long taken(void)
{
    return &sfab_fuzz_taken != NULL ? sfab_fuzz_taken : 0;
}

int main(int argc, char **argv)
{
    unsigned long long mutations = argc > 2 ? strtoull(argv[2], NULL, 10) : 200000;
    unsigned long long first = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    struct stat info;

    if (argc < 2 || argc > 4 || stat(argv[1], &info) != 0) {
        fprintf(stderr, "usage: %s CORPUS_FOLDER|FILE [MUTATIONS [FIRST]]\n", argv[0]);
        return 2;
    }
    if (S_ISDIR(info.st_mode) ? read_corpus(argv[1]) : read_seed(argv[1]))
        return 1;
    if (seed_count == 0) {
        fprintf(stderr, "FAILED: %s has no seeds\n", argv[1]);
        return 1;
    }
    catch_failures();
    for (size_t i = 0; i < seed_count; i++)
        run(seeds[i].data, seeds[i].len, i, 1);
    unsigned long of_seeds = taken();
    if (!S_ISDIR(info.st_mode))
        return 0;
    if (&sfab_fuzz_taken != NULL && of_seeds == 0) {
        fprintf(stderr, "FAILED: no seed in %s is taken by a decoder: renew them with fuzz_seeds\n",
                argv[1]);
        return 1;
    }
    size_t cap = SEED_BYTES_MAX + GROWTH_BYTES;
    uint8_t *buffer = malloc(cap);
    MUST(buffer != NULL);
    for (unsigned long long n = first; n < first + mutations; n++)
        run_mutation(n, buffer, cap);
    free(buffer);
    printf("%zu seeds and %llu mutations run", seed_count, mutations);
    if (&sfab_fuzz_taken != NULL)
        printf("; taken for good: %lu and %lu times", of_seeds, taken() - of_seeds);
    printf("\n");
    for (size_t i = 0; i < seed_count; i++)
        free(seeds[i].data);
    return 0;
}
