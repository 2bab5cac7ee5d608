/* test_config.c - settings: precedence, what is refused and with what sentence, what is shown. */
#include "fabric/config.h"
#include "fabric/log.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct sfab_config config;
static struct sfab_err err;

static int load(const char *const *settings, const char *a, const char *b, const char *c)
{
    sfab_attr attr;
    char *environment[] = {(char *)"HOME=/", (char *)a, (char *)b, (char *)c, NULL};

    sfab_attr_init(&attr);
    attr.settings = settings;
    memset(&err, 0, sizeof err);
    return sfab_config_load(&attr, environment, &config, &err);
}

static void defaults(void **state)
{
    (void)state;
    assert_int_equal(load(NULL, NULL, NULL, NULL), 0);
    assert_true(config.rank == 0 && config.size == 1);
    assert_string_equal(config.transport, "auto");
    assert_true(config.verbs_timeout == 15 && config.verbs_retry == 6);
    assert_true(config.barrier == SFAB_BARRIER_AUTO && config.wait == SFAB_WAIT_AUTO);
}

static void program_wins_over_environment(void **state)
{
    const char *settings[] = {"SFAB_RADIX=4", NULL};

    (void)state;
    assert_int_equal(load(settings, "SFAB_RADIX=8", "SFAB_WAIT=block", NULL), 0);
    assert_true(config.radix == 4 && config.wait == SFAB_WAIT_BLOCK);
}

/* Each is refused, and the sentence names the variable. */
static void bad_values(void **state)
{
    static const struct {
        const char *a, *b, *say;
    } bad[] = {
        {"SFAB_RANK=x", NULL, "SFAB_RANK"},
        {"SFAB_RANK=", NULL, "SFAB_RANK"},
        {"SFAB_RANK= 1", NULL, "SFAB_RANK"},
        {"SFAB_RANK=1x", NULL, "SFAB_RANK"},
        {"SFAB_RANK=99999999999999999999", NULL, "SFAB_RANK"},
        {"SFAB_RANK=4", "SFAB_SIZE=4", "rank 4"},
        {"SFAB_SIZE=0", NULL, "SFAB_SIZE=0"},
        {"SFAB_SIZE=-7", NULL, "SFAB_SIZE"},
        {"SFAB_SIZE=3", NULL, "SFAB_RANK is not"},
        {"SFAB_RANK=2", NULL, "SFAB_SIZE is not"},
        {"SFAB_RADIX=1", NULL, "SFAB_RADIX=1"},
        {"SFAB_RADIX=65", NULL, "SFAB_RADIX"},
        {"SFAB_BARRIER=fast", NULL, "auto|dissemination|central"},
        {"SFAB_BARRIER=", NULL, "SFAB_BARRIER"},
        {"SFAB_BARRIER=auto|central", NULL, "SFAB_BARRIER"},
        {"SFAB_VERBS_MTU=1500", NULL, "SFAB_VERBS_MTU"},
        {"SFAB_VERBS_TIMEOUT=32", NULL, "SFAB_VERBS_TIMEOUT"},
        {"SFAB_LOG=loud", NULL, "SFAB_LOG"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct sfab_config before;

        memset(&config, 0x5a, sizeof config);
        before = config;
        assert_int_equal(load(NULL, bad[i].a, bad[i].b, NULL), SFAB_ERR_CONFIG);
        if (strstr(err.text, bad[i].say) == NULL)
            print_error("%s: %s\n", bad[i].a, err.text);
        assert_non_null(strstr(err.text, bad[i].say));
        assert_memory_equal(&before, &config, sizeof config); /* output only on success */
    }
}

static void bad_attributes(void **state)
{
    sfab_attr attr = {.struct_bytes = 4};
    const char *unknown[] = {"SFAB_RADX=4", NULL}, *no_value[] = {"SFAB_RADIX", NULL};
    char text[600];

    (void)state;
    assert_int_equal(sfab_config_load(&attr, NULL, &config, &err), -EINVAL);
    assert_int_equal(load(unknown, NULL, NULL, NULL), SFAB_ERR_CONFIG);
    assert_non_null(strstr(err.text, "SFAB_RADX"));
    assert_int_equal(load(no_value, NULL, NULL, NULL), SFAB_ERR_CONFIG);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    memcpy(text, "SFAB_NODE=", 10);
    assert_int_equal(load(NULL, text, NULL, NULL), SFAB_ERR_CONFIG);
}

static void root(void **state)
{
    static const char *const bad[] = {"",       "host",       "host:",   ":5",
                                      "host:0", "host:65536", "host:5x", "::1:5",
                                      "[]:5",   "host:-5",    "[::1]",   "host: 5"};
    char host[64];
    uint16_t port;

    (void)state;
    assert_int_equal(sfab_config_parse_root("node-1.cluster:4711", host, sizeof host, &port, &err),
                     0);
    assert_string_equal(host, "node-1.cluster");
    assert_int_equal(port, 4711);
    assert_int_equal(sfab_config_parse_root("[fe80::1]:1", host, sizeof host, &port, &err), 0);
    assert_string_equal(host, "fe80::1");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(sfab_config_parse_root(bad[i], host, sizeof host, &port, &err),
                         SFAB_ERR_CONFIG);
    assert_int_equal(sfab_config_parse_root("abcdefgh:1", host, 8, &port, &err), SFAB_ERR_CONFIG);
}

struct shown {
    int count, secret_hidden, radix_from_environment;
};

static void see(const char *name, const char *value, const char *origin, const char *help,
                void *arg)
{
    struct shown *shown = arg;

    shown->count++;
    assert_true(help[0] != '\0');
    if (strcmp(name, "SFAB_SECRET") == 0)
        shown->secret_hidden = strcmp(value, "(set)") == 0;
    if (strcmp(name, "SFAB_RADIX") == 0)
        shown->radix_from_environment =
            strcmp(origin, "environment") == 0 && strcmp(value, "3") == 0;
    if (strcmp(name, "SFAB_WAIT") == 0)
        assert_string_equal(value, "yield");
}

static void shown(void **state)
{
    struct shown seen = {0};

    (void)state;
    assert_int_equal(load(NULL, "SFAB_SECRET=hunter2", "SFAB_RADIX=3", "SFAB_WAIT=yield"), 0);
    sfab_config_visit(&config, see, &seen);
    assert_true(seen.count > 20 && seen.secret_hidden && seen.radix_from_environment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),   cmocka_unit_test(program_wins_over_environment),
        cmocka_unit_test(bad_values), cmocka_unit_test(bad_attributes),
        cmocka_unit_test(root),       cmocka_unit_test(shown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
