/* auth.c - HMAC-SHA-256 over libcrypto (OpenSSL 3). */
#include "fabric/boot/auth.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const char proof_label[] = "syncfab boot 1 proof";
static const char session_label[] = "syncfab boot 1 session";

/* A process that calls exit() without sfab_close still has our threads running while libcrypto
 * tears its tables down in its own exit handler. So libcrypto is asked for no handler; and because
 * the program may have set it up before us, each of our uses holds exit_gate for reading, and our
 * own exit handler, registered later and so run earlier, closes it for good: a use after that fails
 * instead of crashing. */
static pthread_rwlock_t exit_gate = PTHREAD_RWLOCK_INITIALIZER;

static void close_gate(void)
{
    pthread_rwlock_wrlock(&exit_gate);
}

static void set_up(void)
{
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
    atexit(close_gate);
}

/* Whether libcrypto may be used; leave() must follow if so. */
static bool enter(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_up);
    return pthread_rwlock_tryrdlock(&exit_gate) == 0;
}

static void leave(void)
{
    pthread_rwlock_unlock(&exit_gate);
}

struct sfab_auth_channel {
    EVP_MAC_CTX *mac; /* keyed */
    uint64_t sequence;
    uint8_t direction;
};

int sfab_auth_nonce(uint8_t out[SFAB_FRAME_NONCE_BYTES])
{
    size_t got = 0;
    while (got < SFAB_FRAME_NONCE_BYTES) {
        ssize_t n = getrandom(out + got, SFAB_FRAME_NONCE_BYTES - got, 0);
        if (n < 0 && errno != EINTR) {
            return -errno;
        }
        got += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

bool sfab_auth_equal(const uint8_t *a, const uint8_t *b, size_t len)
{
    return CRYPTO_memcmp(a, b, len) == 0;
}

void sfab_auth_wipe(void *bytes, size_t len)
{
    OPENSSL_cleanse(bytes, len);
}

int sfab_auth_digest(const void *data, size_t len, uint8_t out[SFAB_AUTH_DIGEST_BYTES])
{
    size_t out_bytes = 0;
    if (!enter()) {
        return -ESHUTDOWN;
    }
    bool ok = EVP_Q_digest(NULL, "SHA256", NULL, data, len, out, &out_bytes) == 1;
    leave();
    return ok && out_bytes == SFAB_AUTH_DIGEST_BYTES ? 0 : -EIO;
}

static EVP_MAC_CTX *make_keyed_mac(const uint8_t *key, size_t key_bytes)
{
    EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    if (hmac == NULL) {
        return NULL;
    }
    EVP_MAC_CTX *ctx = EVP_MAC_CTX_new(hmac);
    EVP_MAC_free(hmac); /* the context keeps its own reference */
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                           OSSL_PARAM_construct_end()};
    if (ctx != NULL && EVP_MAC_init(ctx, key, key_bytes, params) != 1) {
        EVP_MAC_CTX_free(ctx);
        ctx = NULL;
    }
    return ctx;
}

/* A context that holds the key; NULL when libcrypto will not. */
static EVP_MAC_CTX *keyed_mac(const uint8_t *key, size_t key_bytes)
{
    if (!enter()) {
        return NULL;
    }
    EVP_MAC_CTX *ctx = make_keyed_mac(key, key_bytes);
    leave();
    return ctx;
}

/* After the process has begun to exit it is left to the kernel. */
static void free_mac(EVP_MAC_CTX *ctx)
{
    if (enter()) {
        EVP_MAC_CTX_free(ctx);
        leave();
    }
}

/* One part of what a MAC covers. */
struct part {
    const void *bytes;
    size_t len;
};

/* Starts over with the key that ctx holds. */
static int mac_parts(EVP_MAC_CTX *ctx, const struct part *parts, size_t count,
                     uint8_t out[SFAB_FRAME_MAC_BYTES])
{
    size_t out_bytes = 0;
    if (!enter()) {
        return -ESHUTDOWN;
    }
    bool ok = EVP_MAC_init(ctx, NULL, 0, NULL) == 1;
    for (size_t i = 0; ok && i < count; i++) {
        ok = EVP_MAC_update(ctx, parts[i].bytes, parts[i].len) == 1;
    }
    ok = ok && EVP_MAC_final(ctx, out, &out_bytes, SFAB_FRAME_MAC_BYTES) == 1;
    leave();
    return ok && out_bytes == SFAB_FRAME_MAC_BYTES ? 0 : -EIO;
}

int sfab_auth_derive(const struct sfab_boot_secret *secret, const uint8_t *hello,
                     size_t hello_bytes, const uint8_t server_nonce[SFAB_FRAME_NONCE_BYTES],
                     struct sfab_auth_keys *keys)
{
    uint8_t transcript[SFAB_FRAME_HELLO_MAX + SFAB_FRAME_NONCE_BYTES];
    uint8_t hash[SFAB_AUTH_DIGEST_BYTES];
    if (hello_bytes > SFAB_FRAME_HELLO_MAX || secret->len_bytes == 0 ||
        secret->len_bytes > SFAB_BOOT_SECRET_MAX) {
        return -EINVAL;
    }
    memcpy(transcript, hello, hello_bytes);
    memcpy(transcript + hello_bytes, server_nonce, SFAB_FRAME_NONCE_BYTES);
    int status = sfab_auth_digest(transcript, hello_bytes + SFAB_FRAME_NONCE_BYTES, hash);
    if (status != 0) {
        return status;
    }
    EVP_MAC_CTX *ctx = keyed_mac(secret->bytes, secret->len_bytes);
    if (ctx == NULL) {
        return -ENOMEM;
    }
    struct part proof[] = {{proof_label, sizeof proof_label - 1}, {hash, sizeof hash}};
    struct part session[] = {{session_label, sizeof session_label - 1}, {hash, sizeof hash}};
    struct sfab_auth_keys derived;
    status = mac_parts(ctx, proof, 2, derived.proof);
    if (status == 0) {
        status = mac_parts(ctx, session, 2, derived.session);
    }
    free_mac(ctx);
    if (status == 0) {
        *keys = derived;
    }
    sfab_auth_wipe(&derived, sizeof derived);
    return status;
}

int sfab_auth_channel_new(const uint8_t session[SFAB_AUTH_DIGEST_BYTES],
                          enum sfab_auth_direction direction, struct sfab_auth_channel **out)
{
    struct sfab_auth_channel *channel = calloc(1, sizeof *channel);
    if (channel == NULL) {
        return -ENOMEM;
    }
    channel->direction = (uint8_t)direction;
    channel->mac = keyed_mac(session, SFAB_AUTH_DIGEST_BYTES);
    if (channel->mac == NULL) {
        free(channel);
        return -ENOMEM;
    }
    *out = channel;
    return 0;
}

void sfab_auth_channel_free(struct sfab_auth_channel *channel)
{
    if (channel != NULL) {
        free_mac(channel->mac);
        free(channel);
    }
}

int sfab_auth_mac(struct sfab_auth_channel *channel, const uint8_t header[SFAB_FRAME_HEADER_BYTES],
                  const uint8_t digest[SFAB_AUTH_DIGEST_BYTES], uint8_t mac[SFAB_FRAME_MAC_BYTES])
{
    uint8_t sequence[8];
    sfab_frame_put_u64(sequence, sizeof sequence, channel->sequence++);
    struct part parts[] = {{&channel->direction, 1},
                           {sequence, sizeof sequence},
                           {header, SFAB_FRAME_HEADER_BYTES},
                           {digest, SFAB_AUTH_DIGEST_BYTES}};
    return mac_parts(channel->mac, parts, 4, mac);
}

int sfab_auth_check(struct sfab_auth_channel *channel,
                    const uint8_t header[SFAB_FRAME_HEADER_BYTES], const uint8_t *payload,
                    size_t len, const uint8_t mac[SFAB_FRAME_MAC_BYTES])
{
    uint8_t digest[SFAB_AUTH_DIGEST_BYTES];
    uint8_t expected[SFAB_FRAME_MAC_BYTES];
    int status = sfab_auth_digest(payload, len, digest);
    if (status == 0) {
        status = sfab_auth_mac(channel, header, digest, expected);
    }
    if (status == 0 && !sfab_auth_equal(expected, mac, sizeof expected)) {
        status = -EBADMSG;
    }
    return status;
}
