/* test_word.c - epoch words: episode and tag go in and come out, and the word grows with the episode
 * whatever the tags are; reductions are exact; collectives have names. */
#include "collectives/reduce.h"
#include "collectives/word.h"
#include "tests/unit/unit.h"

#include <string.h>

static void grows_with_the_episode(void **state)
{
    static const uint64_t episodes[] = {1, 2, 255, 256, 65535, UINT32_MAX, (UINT64_C(1) << 56) - 2};

    (void)state;
    for (size_t i = 0; i < sizeof episodes / sizeof episodes[0]; i++)
        for (unsigned tag = 0; tag < 256; tag++) {
            uint64_t word = sfab_word(episodes[i], (uint8_t)tag);

            assert_true(sfab_word_episode(word) == episodes[i]);
            assert_int_equal(sfab_word_tag(word), tag);
            assert_true(word >= sfab_word(episodes[i], 0));
            assert_true(word < sfab_word(episodes[i] + 1, 0));
        }
}

static void tags_are_distinct_and_named(void **state)
{
    unsigned char seen[256] = {0};
    char text[64];

    (void)state;
    seen[SFAB_TAG_BARRIER] = seen[SFAB_TAG_POISON] = 1;
    for (int reduce = SFAB_AND; reduce <= SFAB_SUM; reduce++)
        for (unsigned count = 1; count <= SFAB_REDUCE_WORDS_MAX; count++) {
            uint8_t tag = sfab_tag_reduce((sfab_reduce)reduce, count);

            assert_int_equal(seen[tag], 0);
            seen[tag] = 1;
        }
    assert_string_equal(sfab_tag_name(SFAB_TAG_BARRIER, text, sizeof text), "a barrier");
    assert_string_equal(sfab_tag_name(sfab_tag_reduce(SFAB_SUM, 3), text, sizeof text),
                        "a barrier with SUM of 3 words");
    assert_string_equal(sfab_tag_name(sfab_tag_reduce(SFAB_AND, 1), text, sizeof text),
                        "a barrier with AND of 1 word");
    assert_non_null(strstr(sfab_tag_name(0x9c, text, sizeof text), "unknown"));
}

static void reductions(void **state)
{
    uint64_t a[2], b[2] = {0xf0, UINT64_MAX};
    static const uint64_t want[][2] = {
        {0x30, 5}, {0xff, UINT64_MAX}, {0x3f, 5}, {0xf0, UINT64_MAX}, {0x12f, 4}};

    (void)state;
    for (int reduce = SFAB_AND; reduce <= SFAB_SUM; reduce++) {
        a[0] = 0x3f;
        a[1] = 5;
        sfab_reduce_words((sfab_reduce)reduce, a, b, 2);
        assert_true(a[0] == want[reduce][0] && a[1] == want[reduce][1]);
        sfab_reduce_words((sfab_reduce)reduce, a, b, 0); /* no words: nothing changes */
        assert_true(a[0] == want[reduce][0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_with_the_episode),
        cmocka_unit_test(tags_are_distinct_and_named),
        cmocka_unit_test(reductions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
