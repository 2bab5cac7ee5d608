/* refusal.c - what must be refused: offsets outside, rights not given, garbage, dead handles. */
#include "tests/conformance/suite.h"

#include <errno.h>
#include <string.h>

/* The sentence of the last failure holds `words`. */
static void check_sentence(struct sfab_check *c, const char *words)
{
    char text[1024] = "";

    sfab_last_error(c->ctx, text, sizeof text);
    if (strstr(text, words) == NULL)
        fprintf(stderr, "rank %d: \"%s\" is not in: %s\n", c->rank, words, text);
    CHECK(c, strstr(text, words) != NULL);
}

static void offsets(struct sfab_check *c)
{
    struct sfab_shared s;
    int to = (c->rank + 1) % c->size;
    uint64_t result = 77;

    sfab_shared_open(c, 4096, SFAB_REMOTE_READ | SFAB_REMOTE_WRITE | SFAB_REMOTE_ATOMIC, &s);
    CHECK_RC(c, -ERANGE, sfab_put(s.of[to], 4095, s.mem, 0, 2));
    check_sentence(c, "offset 4095");
    CHECK_RC(c, -ERANGE, sfab_put(s.of[to], UINT64_MAX, s.mem, 0, 2));
    CHECK_RC(c, -ERANGE, sfab_put(s.of[to], 0, s.mem, 4090, 7));
    CHECK_RC(c, -ERANGE, sfab_get(s.mem, 0, s.of[to], 4096, 1));
    CHECK_RC(c, -ERANGE, sfab_get(s.mem, UINT64_MAX - 3, s.of[to], 0, 8));
    CHECK_RC(c, -ERANGE, sfab_put_u64(s.of[to], 4096, 1));
    CHECK_RC(c, -EINVAL, sfab_put_u64(s.of[to], 12, 1));
    check_sentence(c, "not aligned");
    CHECK_RC(c, -ERANGE, sfab_fetch_add(s.of[to], 8192, 1, &result));
    CHECK_RC(c, -ERANGE, sfab_put_signal(s.of[to], 0, s.mem, 0, 8, s.of[to], 4096, 1));
    CHECK_RC(c, -ERANGE, sfab_wait_u64(s.mem, 4090, 1, 0, 0));
    CHECK_RC(c, -EINVAL, sfab_wait_u64(s.mem, 0, 1, c->size, 0));
    CHECK(c, result == 77);
    /* The last bytes are inside. */
    CHECK_OK(c, sfab_put(s.of[to], 4095, s.mem, 0, 1));
    CHECK_OK(c, sfab_put(s.of[to], 4096, s.mem, 4096, 0));
    sfab_shared_close(c, &s);
}

static void rights(struct sfab_check *c)
{
    struct sfab_shared s;
    int to = (c->rank + 1) % c->size;

    sfab_shared_open(c, 4096, SFAB_REMOTE_READ, &s);
    CHECK_RC(c, -EACCES, sfab_put(s.of[to], 0, s.mem, 0, 8));
    check_sentence(c, "not allowed");
    CHECK_RC(c, -EACCES, sfab_put_u64(s.of[to], 0, 8));
    CHECK_RC(c, -EACCES, sfab_fetch_add(s.of[to], 0, 1, NULL));
    CHECK_OK(c, sfab_get(s.mem, 64, s.of[to], 0, 8));
    sfab_shared_close(c, &s);
    CHECK_RC(c, -EINVAL, sfab_mem_alloc(c->ctx, 0, SFAB_REMOTE_READ, &s.mem));
    CHECK_RC(c, -EINVAL, sfab_mem_alloc(c->ctx, 64, 0x80, &s.mem));
    CHECK_RC(c, -EINVAL, sfab_mem_register(c->ctx, NULL, 64, SFAB_REMOTE_READ, &s.mem));
    CHECK_RC(c, -EOPNOTSUPP, sfab_mem_register(c->ctx, c, 64, SFAB_REMOTE_ATOMIC, &s.mem));
}

static void keys(struct sfab_check *c)
{
    uint8_t key[SFAB_KEY_MAX_BYTES];
    size_t len = 0;
    sfab_mem *mem = NULL;
    sfab_rmem *rmem = NULL;

    CHECK_OK(c, sfab_mem_alloc(c->ctx, 100, SFAB_REMOTE_READ, &mem));
    CHECK_RC(c, -ENOSPC, sfab_mem_key(mem, key, 4, &len));
    CHECK_OK(c, sfab_mem_key(mem, key, sizeof key, &len));
    CHECK_OK(c, sfab_rmem_open(c->ctx, c->rank, key, len, &rmem));
    CHECK(c, sfab_rmem_len(rmem) == 100);
    CHECK_OK(c, sfab_rmem_close(rmem));
    CHECK_RC(c, -EINVAL, sfab_rmem_open(c->ctx, c->size, key, len, &rmem));
    CHECK_RC(c, -EINVAL, sfab_rmem_open(c->ctx, -1, key, len, &rmem));
    if (c->size > 1)
        CHECK_RC(c, -EINVAL, sfab_rmem_open(c->ctx, (c->rank + 1) % c->size, key, len, &rmem));
    for (size_t cut = 0; cut < len; cut++) /* every truncation */
        CHECK_RC(c, -EINVAL, sfab_rmem_open(c->ctx, c->rank, key, cut, &rmem));
    uint64_t state = 42;
    for (int i = 0; i < 2000;
         i++) { /* flipped bits: refused or, where they do not matter, opened */
        uint8_t bad[SFAB_KEY_MAX_BYTES];

        memcpy(bad, key, len);
        bad[sfab_random(&state) % len] ^= (uint8_t)(1u << sfab_random(&state) % 8);
        if (sfab_rmem_open(c->ctx, c->rank, bad, len, &rmem) == 0)
            CHECK_OK(c, sfab_rmem_close(rmem));
    }
    key[8] ^= 1; /* the incarnation */
    CHECK_RC(c, SFAB_ERR_STALE, sfab_rmem_open(c->ctx, c->rank, key, len, &rmem));
    CHECK_OK(c, sfab_mem_free(mem));
}

static void handles(struct sfab_check *c)
{
    char text[64];
    sfab_op *op = NULL;
    uint64_t word = 0;

    CHECK_RC(c, -EINVAL, sfab_barrier(NULL, 0));
    CHECK_RC(c, -EINVAL, sfab_barrier_start(NULL, &op));
    CHECK_RC(c, -EINVAL, sfab_barrier_start(c->world, NULL));
    CHECK_RC(c, -EINVAL, sfab_op_test(NULL));
    CHECK_RC(c, -EINVAL, sfab_op_wait(NULL, 0));
    CHECK_RC(c, -EINVAL, sfab_op_cancel(NULL));
    CHECK_RC(c, -EINVAL, sfab_mem_free(NULL));
    CHECK_RC(c, -EINVAL, sfab_rmem_close(NULL));
    CHECK_RC(c, -EINVAL, sfab_flush(NULL, 0, 0));
    CHECK_RC(c, -EINVAL, sfab_flush(c->ctx, c->size, 0));
    CHECK_RC(c, -EINVAL, sfab_put_u64(NULL, 0, 1));
    CHECK_RC(c, -EINVAL, sfab_rank(NULL));
    CHECK_RC(c, -EINVAL, sfab_progress(NULL));
    CHECK_RC(c, -EINVAL, sfab_counters_get(c->ctx, NULL));
    CHECK_RC(c, -EINVAL, sfab_last_error(c->ctx, NULL, 5));
    CHECK_RC(c, -EINVAL, sfab_last_error(c->ctx, text, 0));
    CHECK(c, sfab_world(NULL) == NULL && sfab_mem_addr(NULL) == NULL && sfab_mem_len(NULL) == 0);
    CHECK_RC(c, -EINVAL, sfab_barrier_reduce(c->world, SFAB_SUM, &word, 0, 0));
    CHECK_RC(c, -EINVAL, sfab_barrier_reduce(c->world, SFAB_SUM, &word, 9, 0));
    CHECK_RC(c, -EINVAL, sfab_barrier_reduce(c->world, (sfab_reduce)17, &word, 1, 0));
    CHECK_RC(c, -EINVAL, sfab_barrier_reduce(c->world, SFAB_SUM, NULL, 1, 0));
    CHECK_OK(c, sfab_barrier_start(c->world, &op));
    CHECK_OK(c, sfab_op_wait(op, PATIENCE_NS));
    CHECK_RC(c, -EINVAL, sfab_op_wait(op, 0)); /* it has ended */
}

const struct sfab_conformance_check sfab_refusal_checks[] = {
    {"offsets outside a memory are refused, the last byte is not", offsets},
    {"rights that were not given are refused", rights},
    {"keys: truncated, flipped, of another rank, of another incarnation", keys},
    {"null and ended handles are refused", handles},
    {NULL, NULL}};
