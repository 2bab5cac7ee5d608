/* test_survey.c - exchanges that deaths do not stop: fabric/boot/survey.h. */
#include "fabric/boot/survey.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int bring(struct sfab_surveys *s, uint64_t tag, uint32_t rank, const uint32_t *members,
                 uint32_t count, const struct sfab_survey **out, bool *first)
{
    char blob[16];
    int len = snprintf(blob, sizeof blob, "of %u", rank);

    return sfab_surveys_bring(s, tag, rank, members, count, blob, (size_t)len, out, first);
}

static void completed(void *arg, const struct sfab_survey *survey)
{
    *(uint64_t *)arg = survey->tag;
}

static void all_bring(void **state)
{
    struct sfab_surveys s;
    const struct sfab_survey *survey = NULL;
    bool first = true;

    (void)state;
    assert_int_equal(sfab_surveys_begin(&s, 3), 0);
    assert_null(sfab_surveys_find(&s, 7));
    assert_int_equal(bring(&s, 7, 2, NULL, 3, &survey, &first), 0);
    assert_false(first);
    assert_int_equal(bring(&s, 7, 2, NULL, 3, &survey, &first), 0); /* again: changes nothing */
    assert_int_equal(survey->open, 2);
    assert_int_equal(bring(&s, 7, 0, NULL, 3, &survey, &first), 0);
    assert_false(survey->complete);
    assert_int_equal(bring(&s, 7, 1, NULL, 3, &survey, &first), 0);
    assert_true(first && survey->complete);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(survey->table[i].here);
        assert_int_equal(survey->table[i].blob[3], '0' + (int)i);
    }
    assert_int_equal(bring(&s, 7, 1, NULL, 3, &survey, &first), 0);
    assert_false(first); /* told once */
    sfab_surveys_end(&s);
}

static void the_dead_are_not_waited_for(void **state)
{
    const uint32_t members[] = {4, 1, 3};
    struct sfab_surveys s;
    const struct sfab_survey *survey = NULL;
    uint64_t done = 0;
    bool first = false;

    (void)state;
    assert_int_equal(sfab_surveys_begin(&s, 5), 0);
    assert_int_equal(bring(&s, 9, 1, members, 3, &survey, &first), 0);
    assert_int_equal(bring(&s, 9, 4, members, 3, &survey, &first), 0);
    sfab_surveys_gone(&s, 0, completed, &done); /* no member */
    assert_int_equal(done, 0);
    sfab_surveys_gone(&s, 4, completed, &done); /* has brought already, and is not in the table */
    assert_int_equal(done, 0);
    sfab_surveys_gone(&s, 3, completed, &done);
    assert_int_equal(done, 9);
    survey = sfab_surveys_find(&s, 9);
    assert_true(survey->complete && survey->table[1].here);
    assert_false(survey->table[0].here || survey->table[2].here);
    /* Who died before a survey began is not waited for either. */
    assert_int_equal(bring(&s, 10, 1, members, 3, &survey, &first), 0);
    assert_true(first && survey->complete);
    sfab_surveys_end(&s);
}

static void what_cannot_be_is_refused(void **state)
{
    const uint32_t members[] = {0, 2}, twice[] = {0, 0}, beyond[] = {0, 3}, other[] = {2, 0};
    struct sfab_surveys s;
    const struct sfab_survey *survey = NULL;
    bool first = false;

    (void)state;
    assert_int_equal(sfab_surveys_begin(&s, 3), 0);
    assert_int_equal(bring(&s, 1, 1, members, 2, &survey, &first), -EINVAL);
    assert_int_equal(bring(&s, 1, 0, twice, 2, &survey, &first), -EINVAL);
    assert_int_equal(bring(&s, 1, 0, beyond, 2, &survey, &first), -EINVAL);
    assert_int_equal(bring(&s, 1, 0, members, 2, &survey, &first), 0);
    assert_int_equal(bring(&s, 1, 2, other, 2, &survey, &first), -EEXIST);
    assert_int_equal(bring(&s, 1, 2, NULL, 3, &survey, &first), -EEXIST);
    for (uint64_t tag = 100; s.under_way < SFAB_SURVEYS_MAX; tag++)
        assert_int_equal(bring(&s, tag, 0, members, 2, &survey, &first), 0);
    assert_int_equal(bring(&s, 99, 0, members, 2, &survey, &first), -ENOBUFS);
    sfab_surveys_end(&s);
}

static void the_missing_are_named(void **state)
{
    struct sfab_surveys s;
    const struct sfab_survey *survey = NULL;
    bool first = false;
    char text[256];

    (void)state;
    assert_int_equal(sfab_surveys_begin(&s, 12), 0);
    for (uint32_t rank = 0; rank < 12; rank++)
        if (rank != 3 && (rank < 7 || rank > 9))
            assert_int_equal(bring(&s, 5, rank, NULL, 12, &survey, &first), 0);
    assert_non_null(strstr(sfab_surveys_missing(&s, 5, text, sizeof text), "ranks 3, 7-9"));
    assert_true(strlen(sfab_surveys_missing(&s, 6, text, 8)) < 8);
    sfab_surveys_end(&s);
}

static void old_ones_are_forgotten(void **state)
{
    struct sfab_surveys s;
    const struct sfab_survey *survey = NULL;
    bool first = false;

    (void)state;
    assert_int_equal(sfab_surveys_begin(&s, 1), 0);
    for (uint64_t tag = 0; tag < SFAB_SURVEYS_KEPT + 10; tag++) {
        assert_int_equal(bring(&s, tag, 0, NULL, 1, &survey, &first), 0);
        assert_true(first);
    }
    assert_null(sfab_surveys_find(&s, 0));
    assert_non_null(sfab_surveys_find(&s, SFAB_SURVEYS_KEPT + 9));
    sfab_surveys_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_bring),
        cmocka_unit_test(the_dead_are_not_waited_for),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(the_missing_are_named),
        cmocka_unit_test(old_ones_are_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
