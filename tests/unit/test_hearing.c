/* test_hearing.c - who is given up on accusations: fabric/boot/hearing.h. */
#include "fabric/boot/hearing.h"
#include "tests/unit/unit.h"

enum { RANKS = 16 };

struct court {
    bool gone[RANKS];
    uint64_t silence_ns[RANKS];
};

static bool is_in(void *arg, uint32_t rank)
{
    return !((struct court *)arg)->gone[rank];
}

static uint64_t silence_ns(void *arg, uint32_t rank)
{
    return ((struct court *)arg)->silence_ns[rank];
}

/* Pairs "who:whom", in this order; returns the rank that is given up, -1: nobody. */
static int judged(struct court *court, const char *said, char *why, size_t cap)
{
    const struct sfab_hearing_court c = {.is_in = is_in, .silence_ns = silence_ns, .arg = court};
    struct sfab_hearing hearing = {0};
    uint32_t rank = UINT32_MAX;

    for (const char *at = said; at[0] != '\0'; at += at[3] != '\0' ? 4 : 3)
        sfab_hearing_add(&hearing, (uint32_t)(at[0] - 'a'), (uint32_t)(at[2] - 'a'), "the text");
    bool somebody = sfab_hearing_judge(&hearing, &c, &rank, why, cap);
    assert_int_equal(hearing.count, 0);
    /* What was said is not said for ever. */
    uint32_t again;
    assert_false(sfab_hearing_judge(&hearing, &c, &again, why + cap / 2, cap / 2));
    sfab_hearing_free(&hearing);
    return somebody ? (int)rank + 'a' : -1;
}

static int judge(struct court *court, const char *said)
{
    char why[2 * SFAB_HEARING_WHY_MAX];

    return judged(court, said, why, sizeof why);
}

static void the_most_accused_goes(void **state)
{
    struct court court = {0};

    (void)state;
    assert_int_equal(judge(&court, ""), -1);
    assert_int_equal(judge(&court, "a:b"), 'b');
    assert_int_equal(judge(&court, "a:b c:a d:a"), 'a');         /* its own link is down */
    assert_int_equal(judge(&court, "a:b a:b a:b c:d e:d"), 'd'); /* once for each pair */
    assert_int_equal(judge(&court, "a:b b:a"), 'b');             /* the first accused */
}

static void silence_decides_between_equals(void **state)
{
    struct court court = {.silence_ns = {[0] = 5}};

    (void)state;
    assert_int_equal(judge(&court, "a:b b:a"), 'a');
    assert_int_equal(judge(&court, "a:b b:a c:b"), 'b');
}

static void who_is_gone_neither_speaks_nor_goes(void **state)
{
    struct court court = {.gone = {[1] = true}};

    (void)state;
    assert_int_equal(judge(&court, "a:b"), -1);
    assert_int_equal(judge(&court, "b:a"), -1);
    assert_int_equal(judge(&court, "b:a c:d"), 'd');
}

static void who_accuses_itself_is_believed(void **state)
{
    struct court court = {0};

    (void)state;
    assert_int_equal(judge(&court, "a:a"), 'a');
    assert_int_equal(judge(&court, "c:b d:b e:b a:a"), 'a');
    assert_int_equal(judge(&court, "a:b a:c a:a"), 'a'); /* cut off: the others are there */
}

static void unless_those_it_misses_are_dead(void **state)
{
    struct court court = {.silence_ns = {[1] = 1000, [2] = 1000}};

    (void)state;
    assert_int_equal(judge(&court, "a:b a:c a:a"), 'b');
    court.gone[1] = true;
    assert_int_equal(judge(&court, "a:b a:c a:a"), 'c');
    court.gone[2] = true;
    assert_int_equal(judge(&court, "a:b a:c a:a"), -1);
    assert_int_equal(judge(&court, "a:b a:c a:d a:a"), 'a'); /* d is there, and out of its reach */
}

static void the_sentence_says_how(void **state)
{
    struct court court = {0};
    char why[2 * SFAB_HEARING_WHY_MAX];

    (void)state;
    assert_int_equal(judged(&court, "a:b c:b", why, sizeof why), 'b');
    assert_string_equal(why, "2 of the others cannot reach it: the text");
    assert_int_equal(judged(&court, "a:a", why, sizeof why), 'a');
    assert_string_equal(why, "the text");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_most_accused_goes),
        cmocka_unit_test(silence_decides_between_equals),
        cmocka_unit_test(who_is_gone_neither_speaks_nor_goes),
        cmocka_unit_test(who_accuses_itself_is_believed),
        cmocka_unit_test(unless_those_it_misses_are_dead),
        cmocka_unit_test(the_sentence_says_how),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
