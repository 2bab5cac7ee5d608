/* test_dissem.c - the dissemination pattern for every N up to 300 and every radix from 2 to 8, and a few
 * large ones: everybody hears of everybody, in ceil(log_k N) rounds, with no more messages than stated,
 * and a sum counts each member once. */
#include "collectives/pattern/dissem.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

enum { N_MAX = 300 };

static uint32_t log_ceil(uint32_t n, uint32_t k)
{
    uint32_t rounds = 0;
    double reach = 1;

    while (reach < n) {
        reach *= k;
        rounds++;
    }
    return rounds;
}

typedef unsigned char set[N_MAX][(N_MAX + 7) / 8];

static void add_all(unsigned char *into, const unsigned char *from)
{
    for (size_t i = 0; i < sizeof(set) / N_MAX; i++)
        into[i] |= from[i];
}

/* Plays the rounds on sets of members heard of. */
static void play(uint32_t n, uint32_t k)
{
    static set heard, next;
    uint32_t messages = 0;

    memset(heard, 0, sizeof heard);
    for (uint32_t i = 0; i < n; i++)
        heard[i][i / 8] |= (unsigned char)(1u << i % 8);
    for (uint32_t r = 0; r < sfab_dissem_rounds(n, k); r++) {
        uint32_t peers = sfab_dissem_peers(n, k, r);

        assert_in_range(peers, 1, k - 1);
        messages += peers;
        memcpy(next, heard, sizeof heard);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = 1; j <= peers; j++) {
                uint32_t to = sfab_dissem_to(n, k, r, j, i);

                assert_true(to < n && to != i);
                assert_int_equal(sfab_dissem_from(n, k, r, j, to), i);
                add_all(next[to], heard[i]);
            }
        memcpy(heard, next, sizeof heard);
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++)
            assert_true((heard[i][j / 8] >> j % 8 & 1) != 0);
    assert_int_equal(messages, sfab_dissem_messages(n, k));
    assert_true(messages <= (k - 1) * log_ceil(n, k));
}

static void everybody_hears_of_everybody(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= N_MAX; n++)
        for (uint32_t k = 2; k <= 8; k++) {
            assert_int_equal(sfab_dissem_rounds(n, k), log_ceil(n, k));
            play(n, k);
        }
}

/* One round less does not do: the count is not only enough but needed. */
static void no_round_is_idle(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= N_MAX; n++)
        for (uint32_t k = 2; k <= 8; k++)
            assert_true(sfab_dissem_stride(k, sfab_dissem_rounds(n, k) - 1) < n);
}

/* The two partial sums of dissem.h, each member a vector of how often it counts each other. */
static void sums_count_each_once(void **state)
{
    static const uint32_t sizes[] = {1,  2,  3,  4,  5,  6,  7,   8,   9,   10,  11,  12, 13,
                                     15, 16, 17, 25, 26, 27, 28,  31,  32,  33,  48,  49, 50,
                                     63, 64, 65, 80, 81, 82, 100, 124, 125, 126, 127, 128};

    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (uint32_t k = 2; k <= 8; k++) {
            uint32_t n = sizes[s];
            uint16_t *full = calloc((size_t)n * n, 2), *part = calloc((size_t)n * n, 2);
            uint16_t *full2 = malloc((size_t)n * n * 2), *part2 = malloc((size_t)n * n * 2);

            for (uint32_t i = 0; i < n; i++)
                full[i * n + i] = 1;
            for (uint32_t r = 0; r < sfab_dissem_rounds(n, k); r++) {
                uint32_t digit = sfab_dissem_digit(n, k, r);

                memcpy(full2, full, (size_t)n * n * 2);
                memcpy(part2, digit > 0 ? full : part, (size_t)n * n * 2);
                for (uint32_t i = 0; i < n; i++)
                    for (uint32_t j = 1; j <= sfab_dissem_peers(n, k, r); j++) {
                        uint32_t from = sfab_dissem_from(n, k, r, j, i);

                        for (uint32_t m = 0; m < n; m++) {
                            full2[i * n + m] = (uint16_t)(full2[i * n + m] + full[from * n + m]);
                            if (j < digit)
                                part2[i * n + m] =
                                    (uint16_t)(part2[i * n + m] + full[from * n + m]);
                            else if (j == digit)
                                part2[i * n + m] =
                                    (uint16_t)(part2[i * n + m] + part[from * n + m]);
                        }
                    }
                memcpy(full, full2, (size_t)n * n * 2);
                memcpy(part, part2, (size_t)n * n * 2);
            }
            const uint16_t *all = sfab_dissem_full_is_all(n, k) ? full : part;
            for (uint32_t i = 0; i < n * n; i++)
                assert_int_equal(all[i], 1);
            free(full), free(part), free(full2), free(part2);
        }
}

static void large(void **state)
{
    (void)state;
    for (uint32_t k = 2; k <= 64; k++)
        for (uint32_t n = UINT32_C(1) << 16; n > 0 && n < UINT32_MAX / 2; n = n * 2 + 1) {
            uint32_t last = sfab_dissem_rounds(n, k) - 1, peers = sfab_dissem_peers(n, k, last);

            assert_true(sfab_dissem_to(n, k, last, peers, n - 1) < n);
            assert_int_equal(
                sfab_dissem_from(n, k, last, peers, sfab_dissem_to(n, k, last, peers, 5)), 5);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_hears_of_everybody),
        cmocka_unit_test(no_round_is_idle),
        cmocka_unit_test(sums_count_each_once),
        cmocka_unit_test(large),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
