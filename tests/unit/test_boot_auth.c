/* test_boot_auth.c - proofs, session keys and frame MACs.
 *
 * The expected values were computed with Python's hmac and hashlib from the definitions in auth.h,
 * so that a change of the protocol cannot pass unseen. */
#include "fabric/boot/auth.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define PROOF           "10637f343b556c8c37566a8fbef3c8c42377b45dc9e1267a7475a1c42b677eb8"
#define SESSION         "8fe8e7072969dc09dbb8f4e2201783ccf9e6dfe5faea7e03c83d021530d65c5f"
#define MAC_TO_SERVER_0 "df6f59924c341cc287544c931241f2aa0c2d53dd82b66491f6aaf817fe838492"
#define MAC_TO_SERVER_1 "24507eec45e2285c454c69cd15c37dd92174655feb814c3d53b3b718dd5f69a1"
#define MAC_TO_CLIENT_0 "8c7228b0d78b1ba20f21a5c9844682374bb3bc45e71e2e7d6759c6064104342a"

static struct sfab_boot_secret secret_of(const char *text)
{
    struct sfab_boot_secret secret = {.len_bytes = strlen(text)};
    memcpy(secret.bytes, text, secret.len_bytes);
    return secret;
}

static const char *hex(const uint8_t bytes[32])
{
    static char text[65];
    for (size_t i = 0; i < 32; i++) {
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    }
    return text;
}

static struct sfab_auth_keys some_keys(const char *secret_text, uint8_t nonce_byte)
{
    struct sfab_boot_secret secret = secret_of(secret_text);
    struct sfab_auth_keys keys;
    uint8_t hello[100];
    uint8_t nonce[SFAB_FRAME_NONCE_BYTES];
    for (size_t i = 0; i < sizeof hello; i++) {
        hello[i] = (uint8_t)i;
    }
    memset(nonce, nonce_byte, sizeof nonce);
    assert_int_equal(sfab_auth_derive(&secret, hello, sizeof hello, nonce, &keys), 0);
    return keys;
}

static void derived_as_defined(void **state)
{
    (void)state;
    struct sfab_auth_keys keys = some_keys("a job's secret", 0xa5);
    assert_string_equal(hex(keys.proof), PROOF);
    assert_string_equal(hex(keys.session), SESSION);
}

static void everything_goes_in(void **state)
{
    (void)state;
    struct sfab_auth_keys keys = some_keys("a job's secret", 0xa5);
    struct sfab_auth_keys other_secret = some_keys("a job's secreT", 0xa5);
    struct sfab_auth_keys other_nonce = some_keys("a job's secret", 0xa4);
    assert_false(sfab_auth_equal(keys.proof, other_secret.proof, 32));
    assert_false(sfab_auth_equal(keys.session, other_secret.session, 32));
    assert_false(sfab_auth_equal(keys.proof, other_nonce.proof, 32));
    assert_false(sfab_auth_equal(keys.session, other_nonce.session, 32));
    assert_false(sfab_auth_equal(keys.proof, keys.session, 32));
}

static void derive_refuses(void **state)
{
    (void)state;
    struct sfab_boot_secret secret = secret_of("");
    struct sfab_auth_keys keys;
    uint8_t hello[SFAB_FRAME_HELLO_MAX + 1] = {0};
    uint8_t nonce[SFAB_FRAME_NONCE_BYTES] = {0};
    assert_int_equal(sfab_auth_derive(&secret, hello, 1, nonce, &keys), -EINVAL);
    secret = secret_of("x");
    assert_int_equal(sfab_auth_derive(&secret, hello, sizeof hello, nonce, &keys), -EINVAL);
    secret.len_bytes = SFAB_BOOT_SECRET_MAX + 1;
    assert_int_equal(sfab_auth_derive(&secret, hello, 1, nonce, &keys), -EINVAL);
    secret.len_bytes = SFAB_BOOT_SECRET_MAX;
    assert_int_equal(sfab_auth_derive(&secret, hello, sizeof hello - 1, nonce, &keys), 0);
}

static struct sfab_auth_channel *channel(enum sfab_auth_direction direction)
{
    struct sfab_auth_keys keys = some_keys("a job's secret", 0xa5);
    struct sfab_auth_channel *made = NULL;
    assert_int_equal(sfab_auth_channel_new(keys.session, direction, &made), 0);
    return made;
}

/* The next MAC of a SEND frame that says "hello". */
static void mac_hello(struct sfab_auth_channel *made, uint8_t header[8], uint8_t mac[32])
{
    uint8_t digest[SFAB_AUTH_DIGEST_BYTES];
    sfab_frame_put_header(header, SFAB_FRAME_SEND, 5);
    assert_int_equal(sfab_auth_digest("hello", 5, digest), 0);
    assert_int_equal(sfab_auth_mac(made, header, digest, mac), 0);
}

static void macs_as_defined(void **state)
{
    (void)state;
    uint8_t header[8];
    uint8_t mac[32];
    struct sfab_auth_channel *up = channel(SFAB_AUTH_TO_SERVER);
    struct sfab_auth_channel *down = channel(SFAB_AUTH_TO_CLIENT);
    mac_hello(up, header, mac);
    assert_string_equal(hex(mac), MAC_TO_SERVER_0);
    mac_hello(up, header, mac);
    assert_string_equal(hex(mac), MAC_TO_SERVER_1);
    mac_hello(down, header, mac);
    assert_string_equal(hex(mac), MAC_TO_CLIENT_0);
    sfab_auth_channel_free(up);
    sfab_auth_channel_free(down);
}

static int check_hello(struct sfab_auth_channel *made, const uint8_t *header, const uint8_t *mac)
{
    return sfab_auth_check(made, header, (const uint8_t *)"hello", 5, mac);
}

static void good_frames_pass_once_and_in_order(void **state)
{
    (void)state;
    uint8_t header[8];
    uint8_t first[32];
    uint8_t second[32];
    struct sfab_auth_channel *sender = channel(SFAB_AUTH_TO_SERVER);
    struct sfab_auth_channel *receiver = channel(SFAB_AUTH_TO_SERVER);
    mac_hello(sender, header, first);
    mac_hello(sender, header, second);
    assert_int_equal(check_hello(receiver, header, first), 0);
    assert_int_equal(check_hello(receiver, header, first), -EBADMSG); /* replayed */
    sfab_auth_channel_free(receiver);
    receiver = channel(SFAB_AUTH_TO_SERVER);
    assert_int_equal(check_hello(receiver, header, second), -EBADMSG); /* one was left out */
    sfab_auth_channel_free(receiver);
    receiver = channel(SFAB_AUTH_TO_CLIENT);
    assert_int_equal(check_hello(receiver, header, first), -EBADMSG); /* sent back */
    sfab_auth_channel_free(receiver);
    sfab_auth_channel_free(sender);
}

static void every_changed_bit_is_seen(void **state)
{
    (void)state;
    uint8_t frame[8 + 5 + 32];
    uint8_t digest[SFAB_AUTH_DIGEST_BYTES];
    struct sfab_auth_channel *sender = channel(SFAB_AUTH_TO_SERVER);
    sfab_frame_put_header(frame, SFAB_FRAME_SEND, 5);
    memcpy(frame + 8, "hello", 5);
    assert_int_equal(sfab_auth_digest("hello", 5, digest), 0);
    assert_int_equal(sfab_auth_mac(sender, frame, digest, frame + 13), 0);
    sfab_auth_channel_free(sender);
    for (size_t bit = 0; bit < 8 * sizeof frame; bit++) {
        struct sfab_auth_channel *receiver = channel(SFAB_AUTH_TO_SERVER);
        frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(sfab_auth_check(receiver, frame, frame + 8, 5, frame + 13), -EBADMSG);
        frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
        sfab_auth_channel_free(receiver);
    }
}

static void nonces_differ(void **state)
{
    (void)state;
    uint8_t nonces[64][SFAB_FRAME_NONCE_BYTES];
    for (size_t i = 0; i < 64; i++) {
        assert_int_equal(sfab_auth_nonce(nonces[i]), 0);
        for (size_t j = 0; j < i; j++) {
            assert_memory_not_equal(nonces[i], nonces[j], sizeof nonces[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(derived_as_defined),
        cmocka_unit_test(everything_goes_in),
        cmocka_unit_test(derive_refuses),
        cmocka_unit_test(macs_as_defined),
        cmocka_unit_test(good_frames_pass_once_and_in_order),
        cmocka_unit_test(every_changed_bit_is_seen),
        cmocka_unit_test(nonces_differ),
    };
    return cmocka_run_group_tests_name("boot authentication", tests, NULL, NULL);
}
