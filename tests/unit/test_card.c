/* test_card.c - start-up cards and memory keys: what goes in comes out; every truncation and anything
 * longer is refused; a refused one leaves the output alone. */
#include "fabric/card.h"
#include "tests/unit/unit.h"

#include <string.h>

static void identity(void **state)
{
    struct sfab_identity in = {.pid = 77,
                               .incarnation = UINT64_MAX,
                               .host = "hostB",
                               .node = "boot|pid:[1]|n",
                               .radix = 4,
                               .barrier = 2,
                               .transport = "shm,verbs"};
    struct sfab_identity out, untouched;
    uint8_t buf[1024];

    (void)state;
    in.cpus.bits[0] = 3;
    in.cpus.bits[15] = UINT64_C(1) << 63;
    size_t len = sfab_identity_encode(&in, buf, sizeof buf);
    assert_true(len > 0);
    assert_true(sfab_identity_decode(buf, len, &out));
    assert_true(out.pid == 77 && out.incarnation == UINT64_MAX && out.radix == 4 &&
                out.barrier == 2);
    assert_string_equal(out.host, "hostB");
    assert_string_equal(out.node, "boot|pid:[1]|n");
    assert_memory_equal(&out.cpus, &in.cpus, sizeof in.cpus);
    memset(&out, 0x77, sizeof out);
    untouched = out;
    for (size_t cut = 0; cut < len; cut++)
        assert_false(sfab_identity_decode(buf, cut, &out));
    buf[len] = 0;
    assert_false(sfab_identity_decode(buf, len + 1, &out));
    assert_memory_equal(&out, &untouched, sizeof out);
    for (size_t cap = 0; cap < len; cap++)
        assert_int_equal(sfab_identity_encode(&in, buf, cap), 0);
}

static void reach(void **state)
{
    struct sfab_reach in = {.incarnation = 5, .world_block = 640, .transports = 2}, out;
    uint8_t buf[1024];

    (void)state;
    strcpy(in.transport[0].name, "shm");
    strcpy(in.transport[1].name, "verbs");
    in.transport[1].address_bytes = SFAB_TP_ADDRESS_MAX;
    in.transport[1].arena_key_bytes = SFAB_TP_KEY_MAX;
    memset(in.transport[1].address, 0xab, SFAB_TP_ADDRESS_MAX);
    memset(in.transport[1].arena_key, 0xcd, SFAB_TP_KEY_MAX);
    size_t len = sfab_reach_encode(&in, buf, sizeof buf);
    assert_true(sfab_reach_decode(buf, len, &out));
    assert_memory_equal(&in, &out, sizeof in);
    for (size_t cut = 0; cut < len; cut++)
        assert_false(sfab_reach_decode(buf, cut, &out));
    buf[20] = SFAB_TRANSPORTS_MAX + 1; /* the count */
    assert_false(sfab_reach_decode(buf, len, &out));
}

static void key(void **state)
{
    struct sfab_key in = {.rank = 9,
                          .incarnation = 5,
                          .len_bytes = 1 << 20,
                          .access = 7,
                          .words = true,
                          .transports = 1};
    struct sfab_key out;
    uint8_t buf[SFAB_KEY_MAX_BYTES];

    (void)state;
    strcpy(in.transport[0].name, "verbs");
    in.transport[0].key_bytes = 12;
    size_t len = sfab_key_encode(&in, buf, sizeof buf);
    assert_true(len > 0 && sfab_key_decode(buf, len, &out));
    assert_memory_equal(&in, &out, sizeof in);
    for (size_t cut = 0; cut < len; cut++)
        assert_false(sfab_key_decode(buf, cut, &out));
    /* A name without an end, and one with a zero byte inside. */
    for (size_t i = 0; i < len; i++) {
        uint8_t byte = buf[i];

        buf[i] = 0xff;
        (void)sfab_key_decode(buf, len, &out);
        buf[i] = byte;
    }
    /* The longest that can occur fits what is promised to callers. */
    in.transports = 2;
    for (int i = 0; i < 2; i++) {
        strcpy(in.transport[i].name, "fifteen letters");
        in.transport[i].key_bytes = SFAB_TP_KEY_MAX;
    }
    assert_true(sfab_key_encode(&in, buf, sizeof buf) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(identity), cmocka_unit_test(reach),
                                       cmocka_unit_test(key)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
