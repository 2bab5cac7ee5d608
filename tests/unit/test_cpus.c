/* test_cpus.c - whether ranks fit their CPUs: not by counting alone. */
#include "fabric/cpus.h"
#include "tests/unit/unit.h"

static uint32_t fit(const uint64_t *masks, uint32_t count)
{
    static struct sfab_cpu_mask mask[16];
    const struct sfab_cpu_mask *at[16];

    for (uint32_t i = 0; i < count; i++) {
        mask[i] = (struct sfab_cpu_mask){.bits = {masks[i]}};
        at[i] = &mask[i];
    }
    return sfab_cpus_fit(at, count);
}

static void by_matching(void **state)
{
    (void)state;
    assert_int_equal(fit((uint64_t[]){3, 3}, 2), 2);
    assert_int_equal(fit((uint64_t[]){3, 3, 3}, 3), 2);
    assert_int_equal(fit((uint64_t[]){1, 2}, 2), 2);
    assert_int_equal(fit((uint64_t[]){1, 1}, 2), 1);             /* both bound to one */
    assert_int_equal(fit((uint64_t[]){1, 1, 0xf0, 0xf0}, 4), 3); /* enough CPUs, badly bound */
    assert_int_equal(fit((uint64_t[]){3, 1, 6}, 3), 3);          /* only if the first moves on */
    assert_int_equal(fit((uint64_t[]){7, 3, 1}, 3), 3);
    assert_int_equal(fit((uint64_t[]){0, 1}, 2), 1);
    assert_int_equal(fit((uint64_t[]){0}, 0), 0);
}

static void this_process(void **state)
{
    struct sfab_cpu_mask mask;
    const struct sfab_cpu_mask *one = &mask;

    (void)state;
    sfab_cpus_mine(&mask);
    assert_int_equal(sfab_cpus_fit(&one, 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_matching),
                                       cmocka_unit_test(this_process)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
