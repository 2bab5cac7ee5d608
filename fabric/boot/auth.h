/* auth.h - who knows the job secret, and that nobody changed a frame.
 *
 * HMAC-SHA-256 (RFC 2104) from libcrypto throughout. A client and the server derive from the secret
 * and both their nonces
 *   proof   = HMAC(secret, "syncfab boot 1 proof"   || SHA-256(HELLO payload || server nonce))
 *   session = HMAC(secret, "syncfab boot 1 session" || the same hash)
 * and the MAC of a frame is
 *   HMAC(session, direction || sequence number || header || SHA-256(payload)).
 * The payload goes in by its hash so that a table of megabytes that goes to every rank is hashed
 * once and not once a rank. */
#ifndef SFAB_FABRIC_BOOT_AUTH_H
#define SFAB_FABRIC_BOOT_AUTH_H

#include "fabric/boot/boot.h"
#include "fabric/boot/frame.h"

#include <stdbool.h>

#define SFAB_AUTH_DIGEST_BYTES 32

/* Fresh random bytes; 0 or a negative errno. */
int sfab_auth_nonce(uint8_t out[SFAB_FRAME_NONCE_BYTES]);

struct sfab_auth_keys {
    uint8_t proof[SFAB_AUTH_DIGEST_BYTES];
    uint8_t session[SFAB_AUTH_DIGEST_BYTES];
};

/* 0, or -ENOMEM / -EIO when libcrypto will not. */
int sfab_auth_derive(const struct sfab_boot_secret *secret, const uint8_t *hello,
                     size_t hello_bytes, const uint8_t server_nonce[SFAB_FRAME_NONCE_BYTES],
                     struct sfab_auth_keys *keys);

int sfab_auth_digest(const void *data, size_t len, uint8_t out[SFAB_AUTH_DIGEST_BYTES]);

/* In constant time. */
bool sfab_auth_equal(const uint8_t *a, const uint8_t *b, size_t len);

/* Overwrites what must not stay in memory. */
void sfab_auth_wipe(void *bytes, size_t len);

enum sfab_auth_direction { SFAB_AUTH_TO_SERVER = 1, SFAB_AUTH_TO_CLIENT = 2 };

/* One direction of one session: a keyed context and the number of the next frame. */
struct sfab_auth_channel;

int sfab_auth_channel_new(const uint8_t session[SFAB_AUTH_DIGEST_BYTES],
                          enum sfab_auth_direction direction, struct sfab_auth_channel **out);
void sfab_auth_channel_free(struct sfab_auth_channel *channel);

/* The MAC of the next frame; counts it. digest: of the payload. */
int sfab_auth_mac(struct sfab_auth_channel *channel, const uint8_t header[SFAB_FRAME_HEADER_BYTES],
                  const uint8_t digest[SFAB_AUTH_DIGEST_BYTES], uint8_t mac[SFAB_FRAME_MAC_BYTES]);

/* Checks the next frame's; counts it. 0, -EBADMSG, or libcrypto's trouble. */
int sfab_auth_check(struct sfab_auth_channel *channel,
                    const uint8_t header[SFAB_FRAME_HEADER_BYTES], const uint8_t *payload,
                    size_t len, const uint8_t mac[SFAB_FRAME_MAC_BYTES]);

#endif
