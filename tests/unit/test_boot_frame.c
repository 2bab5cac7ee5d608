/* test_boot_frame.c - the bootstrap's wire format: what goes in comes out, and nothing else is
 * taken. */
#include "fabric/boot/boot.h"
#include "fabric/boot/frame.h"
#include "fabric/boot/ranges.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A copy that ends where the heap block ends, so that a sanitizer sees a read beyond it. */
static uint8_t *exact(const uint8_t *bytes, size_t len)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);
    assert_non_null(copy);
    if (len > 0) {
        memcpy(copy, bytes, len);
    }
    return copy;
}

static void header_round_trip(void **state)
{
    (void)state;
    uint8_t bytes[SFAB_FRAME_HEADER_BYTES];
    for (uint16_t type = 1; type < SFAB_FRAME_TYPES; type++) {
        struct sfab_frame_header header;
        sfab_frame_put_header(bytes, type, 70000);
        assert_int_equal(sfab_frame_get_header(bytes, 70000, &header), 0);
        assert_int_equal(header.type, type);
        assert_int_equal(header.len_bytes, 70000);
    }
    const uint8_t big_endian[] = {0, 1, 0x11, 0x70, 0, SFAB_FRAME_GONE, 0, 0};
    sfab_frame_put_header(bytes, SFAB_FRAME_GONE, 70000);
    assert_memory_equal(bytes, big_endian, sizeof bytes);
}

static void header_refuses(void **state)
{
    (void)state;
    uint8_t bytes[SFAB_FRAME_HEADER_BYTES];
    struct sfab_frame_header header;
    sfab_frame_put_header(bytes, SFAB_FRAME_SEND, 100);
    assert_int_equal(sfab_frame_get_header(bytes, 99, &header), -EPROTO);
    sfab_frame_put_header(bytes, 0, 1);
    assert_int_equal(sfab_frame_get_header(bytes, 99, &header), -EPROTO);
    sfab_frame_put_header(bytes, SFAB_FRAME_TYPES, 1);
    assert_int_equal(sfab_frame_get_header(bytes, 99, &header), -EPROTO);
    sfab_frame_put_header(bytes, SFAB_FRAME_SEND, 1);
    bytes[7] = 1; /* reserved */
    assert_int_equal(sfab_frame_get_header(bytes, 99, &header), -EPROTO);
}

static struct sfab_hello some_hello(void)
{
    struct sfab_hello hello = {.wire_version = SFAB_WIRE_VERSION, .rank = 7, .size = 4096};
    for (size_t i = 0; i < sizeof hello.nonce; i++) {
        hello.nonce[i] = (uint8_t)(i * 7);
    }
    strcpy(hello.version, "1.22.333");
    strcpy(hello.host, "node-17.example");
    return hello;
}

static void hello_round_trip(void **state)
{
    (void)state;
    struct sfab_hello in = some_hello();
    struct sfab_hello out;
    uint8_t bytes[SFAB_FRAME_HELLO_MAX];
    size_t len = sfab_frame_put_hello(bytes, sizeof bytes, &in);
    assert_true(len > 0);
    assert_int_equal(sfab_frame_get_hello(bytes, len, &out), 0);
    assert_int_equal(out.wire_version, in.wire_version);
    assert_int_equal(out.rank, 7);
    assert_int_equal(out.size, 4096);
    assert_memory_equal(out.nonce, in.nonce, sizeof in.nonce);
    assert_string_equal(out.version, in.version);
    assert_string_equal(out.host, in.host);
    for (size_t cap = 0; cap < len; cap++) {
        assert_int_equal(sfab_frame_put_hello(bytes, cap, &in), 0);
    }
}

static void hello_longest_fits(void **state)
{
    (void)state;
    struct sfab_hello in = some_hello();
    struct sfab_hello out;
    uint8_t bytes[SFAB_FRAME_HELLO_MAX];
    memset(in.version, 'v', sizeof in.version - 1);
    in.version[sizeof in.version - 1] = '\0';
    memset(in.host, 'h', sizeof in.host - 1);
    in.host[sizeof in.host - 1] = '\0';
    size_t len = sfab_frame_put_hello(bytes, sizeof bytes, &in);
    assert_true(len > 0);
    assert_int_equal(sfab_frame_get_hello(bytes, len, &out), 0);
    assert_string_equal(out.host, in.host);
    in.host[sizeof in.host - 1] = 'h'; /* not terminated: must not be read beyond */
    assert_int_equal(sfab_frame_put_hello(bytes, sizeof bytes, &in), 0);
}

static void hello_refuses(void **state)
{
    (void)state;
    struct sfab_hello in = some_hello();
    struct sfab_hello out;
    uint8_t bytes[SFAB_FRAME_HELLO_MAX];
    size_t len = sfab_frame_put_hello(bytes, sizeof bytes, &in);
    for (size_t cut = 0; cut < len; cut++) {
        uint8_t *part = exact(bytes, cut);
        assert_int_equal(sfab_frame_get_hello(part, cut, &out), -EPROTO);
        free(part);
    }
    bytes[len] = 0; /* something more */
    assert_int_equal(sfab_frame_get_hello(bytes, len + 1, &out), -EPROTO);
    bytes[0] ^= 1; /* another magic */
    assert_int_equal(sfab_frame_get_hello(bytes, len, &out), -EPROTO);
}

static void hello_of_a_later_version_is_understood(void **state)
{
    (void)state;
    struct sfab_hello in = some_hello();
    struct sfab_hello out;
    uint8_t bytes[SFAB_FRAME_HELLO_MAX];
    in.wire_version = SFAB_WIRE_VERSION + 1;
    size_t len = sfab_frame_put_hello(bytes, sizeof bytes, &in);
    memset(bytes + len, 9, 20);
    assert_int_equal(sfab_frame_get_hello(bytes, len + 20, &out), 0);
    assert_int_equal(out.wire_version, SFAB_WIRE_VERSION + 1);
    assert_string_equal(out.version, "1.22.333");
}

static void text_is_made_printable(void **state)
{
    (void)state;
    struct sfab_hello in = some_hello();
    struct sfab_hello out;
    uint8_t bytes[SFAB_FRAME_HELLO_MAX];
    strcpy(in.host, "a\033[2Jb\nc\xff");
    size_t len = sfab_frame_put_hello(bytes, sizeof bytes, &in);
    assert_int_equal(sfab_frame_get_hello(bytes, len, &out), 0);
    assert_string_equal(out.host, "a?[2Jb?c?");
}

static void verdict_round_trip(void **state)
{
    (void)state;
    static const int32_t codes[] = {-1, -ETIMEDOUT, SFAB_ERR_AUTH, INT32_MIN + 1};
    uint8_t bytes[SFAB_FRAME_TEXT_MAX + 16];
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        struct sfab_verdict in = {.tag = 0x1122334455667788u, .code = codes[i]};
        struct sfab_verdict out;
        memset(in.text, 'x', i == 0 ? SFAB_FRAME_TEXT_MAX : i);
        size_t len = sfab_frame_put_verdict(bytes, sizeof bytes, &in);
        assert_true(len > 0);
        assert_int_equal(sfab_frame_get_verdict(bytes, len, &out), 0);
        assert_true(out.tag == in.tag);
        assert_int_equal(out.code, codes[i]);
        assert_string_equal(out.text, in.text);
    }
}

static void verdict_refuses(void **state)
{
    (void)state;
    uint8_t bytes[SFAB_FRAME_TEXT_MAX + 16] = {0};
    struct sfab_verdict out;
    static const uint8_t bad_codes[][4] = {
        {0, 0, 0, 0}, {0, 0, 0, 5}, {0x7f, 0xff, 0xff, 0xff}, {0x80, 0, 0, 0}};
    for (size_t i = 0; i < 4; i++) { /* success, positive, and what has no negative */
        memcpy(bytes + 8, bad_codes[i], 4);
        assert_int_equal(sfab_frame_get_verdict(bytes, 20, &out), -EPROTO);
    }
    memset(bytes + 8, 0xff, 4);
    assert_int_equal(sfab_frame_get_verdict(bytes, 12 + SFAB_FRAME_TEXT_MAX, &out), 0);
    assert_int_equal(sfab_frame_get_verdict(bytes, 13 + SFAB_FRAME_TEXT_MAX, &out), -EPROTO);
    assert_int_equal(sfab_frame_get_verdict(bytes, 11, &out), -EPROTO);
}

static void small_payloads(void **state)
{
    (void)state;
    uint8_t bytes[64] = {0};
    uint64_t value = 0;
    struct sfab_cancel cancel = {.tag = 5, .waited_ms = 6};
    struct sfab_cancel cancel_out;
    assert_int_equal(sfab_frame_put_u64(bytes, 7, 1), 0);
    assert_int_equal(sfab_frame_put_u64(bytes, 8, UINT64_MAX - 2), 8);
    assert_int_equal(sfab_frame_get_u64(bytes, 8, &value), 0);
    assert_true(value == UINT64_MAX - 2);
    assert_int_equal(sfab_frame_get_u64(bytes, 7, &value), -EPROTO);
    assert_int_equal(sfab_frame_get_u64(bytes, 9, &value), -EPROTO);
    assert_int_equal(sfab_frame_get_bytes32(bytes, 31, bytes), -EPROTO);
    assert_int_equal(sfab_frame_get_bytes32(bytes, 33, bytes), -EPROTO);
    assert_int_equal(sfab_frame_put_cancel(bytes, sizeof bytes, &cancel), 16);
    assert_int_equal(sfab_frame_get_cancel(bytes, 16, &cancel_out), 0);
    assert_true(cancel_out.tag == 5 && cancel_out.waited_ms == 6);
    assert_int_equal(sfab_frame_get_cancel(bytes, 15, &cancel_out), -EPROTO);
}

static void gather_round_trip(void **state)
{
    (void)state;
    const uint32_t members[] = {3, 0, 70000};
    uint8_t bytes[128];
    struct sfab_gather gather;
    assert_int_equal(sfab_frame_put_gather(bytes, 23, 9, members, 3), 0);
    size_t len = sfab_frame_put_gather(bytes, sizeof bytes, 9, members, 3);
    assert_int_equal(len, sfab_frame_gather_bytes(3));
    memcpy(bytes + len, "blob", 4);
    assert_int_equal(sfab_frame_get_gather(bytes, len + 4, 4, &gather), 0);
    assert_int_equal(gather.count, 3);
    assert_int_equal(sfab_frame_u32_at(gather.members_be, 2), 70000);
    assert_int_equal(gather.blob_bytes, 4);
    assert_memory_equal(gather.blob, "blob", 4);
    assert_int_equal(sfab_frame_get_gather(bytes, len + 4, 3, &gather), -EPROTO);
    for (size_t cut = 0; cut < len; cut++) {
        uint8_t *part = exact(bytes, cut);
        assert_int_equal(sfab_frame_get_gather(part, cut, 4, &gather), -EPROTO);
        free(part);
    }
    memset(bytes + 8, 0xff, 4); /* a count of 2^32 - 1 must not wrap anything */
    assert_int_equal(sfab_frame_get_gather(bytes, len + 4, 4, &gather), -EPROTO);
}

static void gathered_round_trip(void **state)
{
    (void)state;
    const uint32_t lens[] = {2, 0, 3};
    uint8_t bytes[64];
    struct sfab_gathered gathered;
    size_t len = sfab_frame_put_gathered(bytes, sizeof bytes, 77, lens, 3);
    assert_int_equal(len, sfab_frame_gathered_bytes(3));
    memcpy(bytes + len, "aaccc", 5);
    assert_int_equal(sfab_frame_get_gathered(bytes, len + 5, 3, &gathered), 0);
    assert_int_equal(gathered.count, 3);
    assert_int_equal(sfab_frame_u32_at(gathered.lens_be, 0), 2);
    assert_memory_equal(gathered.blobs, "aaccc", 5);
    assert_int_equal(sfab_frame_get_gathered(bytes, len + 5, 2, &gathered), -EPROTO);
    for (size_t cut = 0; cut < len + 5; cut++) {
        uint8_t *part = exact(bytes, cut);
        assert_int_equal(sfab_frame_get_gathered(part, cut, 3, &gathered), -EPROTO);
        free(part);
    }
    assert_int_equal(sfab_frame_get_gathered(bytes, len + 6, 3, &gathered), -EPROTO);
}

static void message_and_gone(void **state)
{
    (void)state;
    uint8_t bytes[64];
    struct sfab_message message;
    struct sfab_gone in = {.rank = 5, .how = 1, .goodbye = 1234567890123u};
    struct sfab_gone out;
    uint32_t count;
    size_t head = sfab_frame_put_message_head(bytes, sizeof bytes, 9, 0xabcd);
    assert_int_equal(head, SFAB_FRAME_MESSAGE_HEAD_BYTES);
    memcpy(bytes + head, "hi", 2);
    assert_int_equal(sfab_frame_get_message(bytes, head + 2, 2, &message), 0);
    assert_int_equal(message.rank, 9);
    assert_int_equal(message.channel, 0xabcd);
    assert_int_equal(message.len_bytes, 2);
    assert_int_equal(sfab_frame_get_message(bytes, head + 2, 1, &message), -EPROTO);
    assert_int_equal(sfab_frame_get_message(bytes, head - 1, 9, &message), -EPROTO);
    sfab_frame_put_gone(bytes, &in);
    sfab_frame_put_gone(bytes + SFAB_FRAME_GONE_BYTES, &in);
    assert_int_equal(sfab_frame_gone_count(bytes, 32, &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(sfab_frame_get_gone(bytes, 1, &out), 0);
    assert_int_equal(out.rank, 5);
    assert_int_equal(out.how, 1);
    assert_true(out.goodbye == 1234567890123u);
    bytes[7] = 2; /* neither left nor died */
    assert_int_equal(sfab_frame_get_gone(bytes, 0, &out), -EPROTO);
    assert_int_equal(sfab_frame_gone_count(bytes, 0, &count), -EPROTO);
    assert_int_equal(sfab_frame_gone_count(bytes, 17, &count), -EPROTO);
}

static bool in_text(const void *arg, uint32_t rank)
{
    return ((const char *)arg)[rank] == 'x';
}

static void ranges_as_people_write_them(void **state)
{
    (void)state;
    static const struct {
        const char *set, *text;
        uint32_t count;
    } cases[] = {{"....", "no rank", 0},
                 {"x...", "rank 0", 1},
                 {"...x", "rank 3", 1},
                 {"xx..", "ranks 0, 1", 2},
                 {"xxxx", "ranks 0-3", 4},
                 {"...x...xxx", "ranks 3, 7-9", 4},
                 {"x.x.xx.xxx", "ranks 0, 2, 4, 5, 7-9", 7}};
    char buf[64];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t size = (uint32_t)strlen(cases[i].set);
        assert_int_equal(sfab_ranges_text(buf, sizeof buf, size, in_text, cases[i].set),
                         cases[i].count);
        assert_string_equal(buf, cases[i].text);
    }
}

static void ranges_say_what_does_not_fit(void **state)
{
    (void)state;
    char set[201];
    char buf[64];
    for (size_t i = 0; i < 200; i++) {
        set[i] = i % 2 == 0 ? 'x' : '.';
    }
    set[200] = '\0';
    assert_int_equal(sfab_ranges_text(buf, sizeof buf, 200, in_text, set), 100);
    assert_string_equal(buf, "ranks 0, 2, 4, 6, 8, 10, 12, 14, 16, 18 and 90 more");
    for (size_t cap = 0; cap < sizeof buf; cap++) {
        memset(buf, '#', sizeof buf);
        sfab_ranges_text(buf, cap, 200, in_text, set);
        assert_true(cap == 0 || memchr(buf, '\0', cap) != NULL);
        for (size_t i = cap; i < sizeof buf; i++) {
            assert_int_equal(buf[i], '#');
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_round_trip),
        cmocka_unit_test(header_refuses),
        cmocka_unit_test(hello_round_trip),
        cmocka_unit_test(hello_longest_fits),
        cmocka_unit_test(hello_refuses),
        cmocka_unit_test(hello_of_a_later_version_is_understood),
        cmocka_unit_test(text_is_made_printable),
        cmocka_unit_test(verdict_round_trip),
        cmocka_unit_test(verdict_refuses),
        cmocka_unit_test(small_payloads),
        cmocka_unit_test(gather_round_trip),
        cmocka_unit_test(gathered_round_trip),
        cmocka_unit_test(message_and_gone),
        cmocka_unit_test(ranges_as_people_write_them),
        cmocka_unit_test(ranges_say_what_does_not_fit),
    };
    return cmocka_run_group_tests_name("boot frames", tests, NULL, NULL);
}
