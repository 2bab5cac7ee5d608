/* rma.c - puts, gets, signals: every byte where it belongs, and what order promises. */
#include "tests/conformance/suite.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BUFFER = 3 << 20 };

static unsigned char pattern(uint64_t seed, size_t i)
{
    return (unsigned char)(seed * 131 + i * 7 + (i >> 8));
}

static void fill(char *at, uint64_t seed, size_t len)
{
    for (size_t i = 0; i < len; i++)
        at[i] = (char)pattern(seed, i);
}

static size_t differing(const char *at, uint64_t seed, size_t len)
{
    size_t wrong = 0;

    for (size_t i = 0; i < len; i++)
        wrong += (unsigned char)at[i] != pattern(seed, i);
    return wrong;
}

static const size_t sizes[] = {0, 1, 7, 8, 9, 63, 64, 65, 127, 128, 129, 4096, 65537, 1 << 20};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

/* Everyone puts to its neighbours at odd offsets (and to itself), and checks what came. */
static void puts_by_value(struct sfab_check *c)
{
    struct sfab_shared s;

    sfab_shared_open(c, BUFFER, SFAB_REMOTE_WRITE, &s);
    for (int distance = 0; distance < c->size && distance < 3; distance++)
        for (int i = 0; i < SIZES; i++) {
            int to = (c->rank + distance) % c->size,
                from = (c->rank + c->size - distance) % c->size;
            uint64_t at = 64 + (uint64_t)i % 5, source = BUFFER / 2 + (uint64_t)i % 3;

            memset(s.bytes, 0, BUFFER / 2);
            fill(s.bytes + source, (uint64_t)c->rank + 1, sizes[i]);
            CHECK_OK(c, sfab_barrier(c->world, PATIENCE_NS));
            CHECK_OK(c, sfab_put(s.of[to], at, s.mem, source, sizes[i]));
            CHECK_OK(c, sfab_flush(c->ctx, to, PATIENCE_NS));
            CHECK_OK(c, sfab_barrier(c->world, PATIENCE_NS));
            CHECK(c, differing(s.bytes + at, (uint64_t)from + 1, sizes[i]) == 0);
            CHECK(c, s.bytes[at - 1] == 0 && s.bytes[at + sizes[i]] == 0);
            CHECK_OK(c, sfab_barrier(c->world, PATIENCE_NS));
        }
    sfab_shared_close(c, &s);
}

static void gets_by_value(struct sfab_check *c)
{
    struct sfab_shared s;

    sfab_shared_open(c, BUFFER, SFAB_REMOTE_READ, &s);
    fill(s.bytes, (uint64_t)c->rank + 1, BUFFER / 2);
    CHECK_OK(c, sfab_barrier(c->world, PATIENCE_NS));
    for (int from = 0; from < c->size; from++)
        for (int i = 0; i < SIZES; i++) {
            uint64_t at = BUFFER / 2 + 1;

            memset(s.bytes + BUFFER / 2, 0, BUFFER / 2);
            CHECK_OK(c, sfab_get(s.mem, at, s.of[from], 0, sizes[i]));
            CHECK_OK(c, sfab_flush(c->ctx, from, PATIENCE_NS));
            CHECK(c, differing(s.bytes + at, (uint64_t)from + 1, sizes[i]) == 0);
            CHECK(c, s.bytes[at - 1] == 0 && s.bytes[at + sizes[i]] == 0);
        }
    sfab_shared_close(c, &s);
}

/* Memory that the program had before, reached by put and get. */
static void registered_memory(struct sfab_check *c)
{
    enum { BYTES = 100003 };
    char *own = malloc(BYTES);
    sfab_rmem **of = calloc((size_t)c->size, sizeof *of);
    sfab_mem *mem = NULL, *local = NULL;
    int next = (c->rank + 1) % c->size, before = (c->rank + c->size - 1) % c->size;

    CHECK_OK(c, sfab_mem_register(c->ctx, own, BYTES, SFAB_REMOTE_READ | SFAB_REMOTE_WRITE, &mem));
    CHECK_OK(c, sfab_mem_alloc(c->ctx, BYTES, 0, &local));
    memset(own, 0, BYTES);
    fill(sfab_mem_addr(local), (uint64_t)c->rank + 1, BYTES);
    CHECK_OK(c, sfab_mem_share(mem, c->world, of, PATIENCE_NS));
    CHECK_OK(c, sfab_barrier(c->world, PATIENCE_NS));
    CHECK_OK(c, sfab_put(of[next], 3, local, 0, BYTES - 3));
    CHECK_OK(c, sfab_flush(c->ctx, next, PATIENCE_NS));
    CHECK_OK(c, sfab_barrier(c->world, PATIENCE_NS));
    CHECK(c, differing(own + 3, (uint64_t)before + 1, BYTES - 3) == 0);
    CHECK_OK(c, sfab_get(local, 0, of[next], 3, BYTES - 3));
    CHECK_OK(c, sfab_flush(c->ctx, next, PATIENCE_NS));
    CHECK(c, differing(sfab_mem_addr(local), (uint64_t)c->rank + 1, BYTES - 3) == 0);
    CHECK_RC(c, -EOPNOTSUPP, sfab_put_u64(of[next], 0, 1));
    CHECK_OK(c, sfab_barrier(c->world, PATIENCE_NS));
    for (int i = 0; i < c->size; i++)
        CHECK_OK(c, sfab_rmem_close(of[i]));
    CHECK_OK(c, sfab_barrier(c->world, PATIENCE_NS));
    CHECK_OK(c, sfab_mem_free(mem));
    CHECK_OK(c, sfab_mem_free(local));
    free(of);
    free(own);
}

/* A word that goes round the ranks. */
static void word_ring(struct sfab_check *c)
{
    enum { LAPS = 50 };
    struct sfab_shared s;
    int next = (c->rank + 1) % c->size, before = (c->rank + c->size - 1) % c->size;

    sfab_shared_open(c, 64, SFAB_REMOTE_WRITE, &s);
    for (uint64_t lap = 1; lap <= LAPS; lap++) {
        uint64_t seen = 0;

        if (c->rank == 0)
            CHECK_OK(c, sfab_put_u64(s.of[next], 8, lap));
        CHECK_OK(c, sfab_wait_u64(s.mem, 8, lap, before, PATIENCE_NS));
        CHECK_OK(c, sfab_load_u64(s.mem, 8, &seen));
        CHECK(c, seen == lap);
        if (c->rank != 0)
            CHECK_OK(c, sfab_put_u64(s.of[next], 8, lap));
    }
    sfab_shared_close(c, &s);
}

/* Whoever sees the signal sees its data, and every put before it, whole. */
static void signal_after_data(struct sfab_check *c)
{
    enum {
        ROUNDS = 300,
        SIGNAL = 0,
        ACK = 64,
        EARLIER = 4096,
        DATA = 8192,
        WORDS = 700,
        SOURCE = 65536,
        BYTES = 131072
    };
    struct sfab_shared s;
    int next = (c->rank + 1) % c->size, before = (c->rank + c->size - 1) % c->size;

    sfab_shared_open(c, BYTES, SFAB_REMOTE_WRITE, &s);
    uint64_t *source = (uint64_t *)(void *)(s.bytes + SOURCE);
    const uint64_t *data = (uint64_t *)(void *)(s.bytes + DATA);
    const uint64_t *earlier = (uint64_t *)(void *)(s.bytes + EARLIER);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        size_t words = 1 + round * 37 % WORDS, wrong = 0;

        for (size_t i = 0; i < words; i++)
            source[i] = round;
        CHECK_OK(c, sfab_put(s.of[next], EARLIER, s.mem, SOURCE, 8 * (words % 64 + 1)));
        CHECK_OK(c, sfab_put_signal(s.of[next], DATA, s.mem, SOURCE, 8 * words, s.of[next], SIGNAL,
                                    round));
        CHECK_OK(c, sfab_wait_u64(s.mem, SIGNAL, round, before, PATIENCE_NS));
        for (size_t i = 0; i < words; i++)
            wrong += data[i] != round;
        for (size_t i = 0; i < words % 64 + 1 && i < words; i++)
            wrong += earlier[i] != round;
        CHECK(c, wrong == 0);
        /* The neighbour before may write again, and our source may change. */
        CHECK_OK(c, sfab_put_u64(s.of[before], ACK, round));
        CHECK_OK(c, sfab_wait_u64(s.mem, ACK, round, next, PATIENCE_NS));
        CHECK_OK(c, sfab_flush(c->ctx, next, PATIENCE_NS));
    }
    sfab_shared_close(c, &s);
}

/* Far more puts than any queue holds, none waited for. */
static void back_pressure(struct sfab_check *c)
{
    enum { PUTS = 20000, SLOTS = 512 };
    struct sfab_shared s;
    int next = (c->rank + 1) % c->size;

    sfab_shared_open(c, 8 * SLOTS + 64, SFAB_REMOTE_WRITE, &s);
    for (uint64_t i = 0; i < PUTS; i++)
        CHECK_OK(c, sfab_put_u64(s.of[next], 8 * (i % SLOTS), i));
    CHECK_OK(c, sfab_flush(c->ctx, next, PATIENCE_NS));
    CHECK_OK(c, sfab_barrier(c->world, PATIENCE_NS));
    for (uint64_t slot = 0; slot < SLOTS; slot++) {
        uint64_t last = slot + (PUTS - 1 - slot) / SLOTS * SLOTS, seen = 0;

        CHECK_OK(c, sfab_load_u64(s.mem, 8 * slot, &seen));
        CHECK(c, seen == last);
    }
    sfab_shared_close(c, &s);
}

/* After a flush, whoever hears of it finds the data at the target. */
static void flush_then_tell(struct sfab_check *c)
{
    struct sfab_shared s;

    sfab_shared_open(c, 8192, SFAB_REMOTE_READ | SFAB_REMOTE_WRITE, &s);
    int target = c->size - 1, reader = c->size > 2 ? 1 : c->size - 1;
    for (uint64_t round = 1; round <= 100; round++) {
        if (c->rank == 0) {
            memset(s.bytes + 4096, (int)round, 1024);
            CHECK_OK(c, sfab_put(s.of[target], 0, s.mem, 4096, 1024));
            CHECK_OK(c, sfab_flush(c->ctx, target, PATIENCE_NS));
            CHECK_OK(c, sfab_put_u64(s.of[reader], 2048, round));
        }
        if (c->rank == reader) {
            CHECK_OK(c, sfab_wait_u64(s.mem, 2048, round, 0, PATIENCE_NS));
            CHECK_OK(c, sfab_get(s.mem, 6144, s.of[target], 0, 1024));
            CHECK_OK(c, sfab_flush(c->ctx, target, PATIENCE_NS));
            for (int i = 0; i < 1024; i++)
                if (s.bytes[6144 + i] != (char)round) {
                    CHECK(c, s.bytes[6144 + i] == (char)round);
                    break;
                }
            CHECK_OK(c, sfab_put_u64(s.of[0], 3072, round));
        }
        if (c->rank == 0)
            CHECK_OK(c, sfab_wait_u64(s.mem, 3072, round, reader, PATIENCE_NS));
    }
    sfab_shared_close(c, &s);
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The last rank computes without a call of the library until the others say, by a word in its memory,
 * that they have written and read it (connecting for the first time, perhaps). If they needed its help
 * none of them would get that far. */
static void busy_peer(struct sfab_check *c)
{
    struct sfab_shared s;
    int busy = c->size - 1;
    uint64_t slot = 8 * (uint64_t)c->rank, done = 8 * (uint64_t)c->size;

    sfab_shared_open(c, 4096 + 16 * (size_t)c->size, SFAB_REMOTE_READ | SFAB_REMOTE_WRITE, &s);
    if (c->rank == busy) {
        double until = now_s() + 25;
        const _Atomic uint64_t *words = (const _Atomic uint64_t *)(void *)(s.bytes + done);

        for (int i = 0; i < busy; i++) {
            while (atomic_load_explicit(&words[i], memory_order_acquire) == 0 && now_s() < until)
                continue;
            CHECK(c, atomic_load_explicit(&words[i], memory_order_acquire) == 1);
        }
    } else {
        CHECK_OK(c, sfab_put_u64(s.of[busy], slot, 7));
        CHECK_OK(c, sfab_flush(c->ctx, busy, PATIENCE_NS));
        CHECK_OK(c, sfab_get(s.mem, slot, s.of[busy], slot, 8));
        CHECK_OK(c, sfab_flush(c->ctx, busy, PATIENCE_NS));
        CHECK(c, *(uint64_t *)(void *)(s.bytes + slot) == 7);
        CHECK_OK(c, sfab_put_u64(s.of[busy], done + slot, 1));
    }
    sfab_shared_close(c, &s);
}

const struct sfab_conformance_check sfab_rma_checks[] = {
    {"a busy rank is reached without its help, also for the first time", busy_peer},
    {"puts of many sizes and offsets arrive whole and touch nothing else", puts_by_value},
    {"gets of many sizes bring the right bytes", gets_by_value},
    {"memory the program had before can be put to and got from", registered_memory},
    {"a word goes round the ranks", word_ring},
    {"a signal is seen after its data and all earlier puts", signal_after_data},
    {"more puts than the queues hold", back_pressure},
    {"data is at the target after a flush, for a third rank too", flush_then_tell},
    {NULL, NULL}};
