/* frame.h - the wire format between ranks and the rendezvous.
 *
 * A frame is a header of 8 bytes (payload length u32, type u16, zero u16), the payload, and, once
 * the client has sent its proof, a MAC of 32 bytes (auth.h). Numbers are big-endian. Here is only
 * the encoding and decoding, pure and without I/O; every get function accepts any bytes whatever
 * and answers -EPROTO for what it does not like.
 *
 *   client                        server
 *   HELLO      -->                            who am I, my nonce
 *              <--  CHALLENGE                 the server's nonce
 *   PROOF      -->                            HMAC over both; from here on every frame has a MAC
 *              <--  WELCOME or REFUSED        its MAC is the server's proof
 *              <--  JOINED or REFUSED         all are here, or the job cannot start
 *   then GATHER, CANCEL, SEND, LEAVE  -->  and  <--  GATHERED, GATHER_FAILED, MESSAGE, GONE
 *   and for failures SURVEY, SURVEY_ASK, ACCUSE, DEAD, ABORT  -->
 *                and <--  SURVEYED, SURVEY_MISSING, WHY, ABORTED; BEAT both ways
 *
 * HELLO, CHALLENGE and PROOF keep their form in all wire versions, so that two versions can tell
 * each other apart. */
#ifndef SFAB_FABRIC_BOOT_FRAME_H
#define SFAB_FABRIC_BOOT_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define SFAB_WIRE_VERSION 2u

#define SFAB_FRAME_HEADER_BYTES 8
#define SFAB_FRAME_MAC_BYTES    32
#define SFAB_FRAME_NONCE_BYTES  32

#define SFAB_FRAME_HELLO_MAX   256  /* the largest payload of one who has not proved the secret */
#define SFAB_FRAME_TEXT_MAX    1000 /* a sentence */
#define SFAB_FRAME_VERSION_CAP 32
#define SFAB_FRAME_HOST_CAP    64

enum sfab_frame_type {
    SFAB_FRAME_HELLO = 1,
    SFAB_FRAME_CHALLENGE,
    SFAB_FRAME_PROOF,
    SFAB_FRAME_WELCOME,
    SFAB_FRAME_REFUSED,
    SFAB_FRAME_JOINED,
    SFAB_FRAME_GIVE_UP, /* a client's join timeout is over: names who is missing to everybody */
    SFAB_FRAME_GATHER,
    SFAB_FRAME_CANCEL,
    SFAB_FRAME_GATHERED,
    SFAB_FRAME_GATHER_FAILED,
    SFAB_FRAME_SEND,
    SFAB_FRAME_MESSAGE,
    SFAB_FRAME_LEAVE,
    SFAB_FRAME_GONE,
    SFAB_FRAME_SURVEY,         /* as GATHER */
    SFAB_FRAME_SURVEYED,       /* as GATHERED, with lengths plus 1; 0: absent */
    SFAB_FRAME_SURVEY_ASK,     /* the tag */
    SFAB_FRAME_SURVEY_MISSING, /* a verdict, its code without meaning */
    SFAB_FRAME_ACCUSE,         /* as SEND, channel 0, data: a text */
    SFAB_FRAME_DEAD,           /* the same: its process was seen to end */
    SFAB_FRAME_WORDS,          /* the same, of itself: what is to be told when it leaves */
    SFAB_FRAME_WHY,            /* the same: what was seen of a departure that a GONE will tell */
    SFAB_FRAME_ABORT,          /* a verdict, its tag without meaning */
    SFAB_FRAME_ABORTED,        /* a verdict, its tag the rank that aborted */
    SFAB_FRAME_BEAT,           /* nothing: something for the other host to acknowledge */
    SFAB_FRAME_TYPES           /* one past the last */
};

struct sfab_frame_header {
    uint32_t len_bytes; /* of the payload */
    uint16_t type;
};

void sfab_frame_put_header(uint8_t out[SFAB_FRAME_HEADER_BYTES], uint16_t type, uint32_t len_bytes);
/* -EPROTO: unknown type, reserved bits, or a payload above max_bytes. */
int sfab_frame_get_header(const uint8_t in[SFAB_FRAME_HEADER_BYTES], uint32_t max_bytes,
                          struct sfab_frame_header *out);

/* The put functions return the payload's length, or 0 when cap is too small or a value too long. */

struct sfab_hello {
    uint32_t wire_version;
    uint32_t rank, size;
    uint8_t nonce[SFAB_FRAME_NONCE_BYTES];
    char version[SFAB_FRAME_VERSION_CAP]; /* of syncfab */
    char host[SFAB_FRAME_HOST_CAP];
};
size_t sfab_frame_put_hello(uint8_t *out, size_t cap, const struct sfab_hello *hello);
int sfab_frame_get_hello(const uint8_t *in, size_t len, struct sfab_hello *hello);

/* CHALLENGE and PROOF: 32 bytes. WELCOME and JOINED: nothing. GIVE_UP: for how long it waited, in
 * ns. LEAVE: the goodbye. */
int sfab_frame_get_bytes32(const uint8_t *in, size_t len, uint8_t out[32]);
size_t sfab_frame_put_u64(uint8_t *out, size_t cap, uint64_t value);
int sfab_frame_get_u64(const uint8_t *in, size_t len, uint64_t *value);

/* REFUSED (tag 0) and GATHER_FAILED: a code and its sentence. */
struct sfab_verdict {
    uint64_t tag;
    int32_t code; /* negative */
    char text[SFAB_FRAME_TEXT_MAX + 1];
};
size_t sfab_frame_put_verdict(uint8_t *out, size_t cap, const struct sfab_verdict *verdict);
int sfab_frame_get_verdict(const uint8_t *in, size_t len, struct sfab_verdict *verdict);

/* CANCEL: gives up waiting for the exchange `tag` after waited_ms. */
struct sfab_cancel {
    uint64_t tag;
    uint64_t waited_ms;
};
size_t sfab_frame_put_cancel(uint8_t *out, size_t cap, const struct sfab_cancel *cancel);
int sfab_frame_get_cancel(const uint8_t *in, size_t len, struct sfab_cancel *cancel);

/* GATHER: one rank's contribution. members_be is big-endian u32s; count 0 means all ranks. */
struct sfab_gather {
    uint64_t tag;
    uint32_t count;
    const uint8_t *members_be;
    const uint8_t *blob;
    size_t blob_bytes;
};
/* Everything but the blob, which is to follow it. */
size_t sfab_frame_put_gather(uint8_t *out, size_t cap, uint64_t tag, const uint32_t *members,
                             uint32_t count);
size_t sfab_frame_gather_bytes(uint32_t count);
int sfab_frame_get_gather(const uint8_t *in, size_t len, size_t blob_max,
                          struct sfab_gather *gather);
uint32_t sfab_frame_u32_at(const uint8_t *be, size_t index);

/* GATHERED: count lengths, then the blobs end to end. */
struct sfab_gathered {
    uint64_t tag;
    uint32_t count;
    const uint8_t *lens_be;
    const uint8_t *blobs;
    size_t blobs_bytes;
};
size_t sfab_frame_put_gathered(uint8_t *out, size_t cap, uint64_t tag, const uint32_t *lens,
                               uint32_t count);
size_t sfab_frame_gathered_bytes(uint32_t count);
int sfab_frame_get_gathered(const uint8_t *in, size_t len, size_t blob_max,
                            struct sfab_gathered *gathered);

/* SURVEYED: the same, but each length is one more, and 0 means absent. */
int sfab_frame_get_surveyed(const uint8_t *in, size_t len, size_t blob_max,
                            struct sfab_gathered *surveyed);

/* SEND (rank: to whom) and MESSAGE (rank: from whom). */
#define SFAB_FRAME_MESSAGE_HEAD_BYTES 6
struct sfab_message {
    uint32_t rank;
    uint16_t channel;
    const uint8_t *data;
    size_t len_bytes;
};
size_t sfab_frame_put_message_head(uint8_t *out, size_t cap, uint32_t rank, uint16_t channel);
int sfab_frame_get_message(const uint8_t *in, size_t len, size_t data_max,
                           struct sfab_message *message);

/* The data of ACCUSE, DEAD and WHY as a text, cut to cap; only printable characters pass. */
void sfab_frame_get_text(const struct sfab_message *message, char *text, size_t cap);

/* GONE: ranks that left or died, in the order seen. */
#define SFAB_FRAME_GONE_BYTES 16 /* one entry */
struct sfab_gone {
    uint32_t rank;
    uint32_t how; /* enum sfab_boot_gone */
    uint64_t goodbye;
};
void sfab_frame_put_gone(uint8_t out[SFAB_FRAME_GONE_BYTES], const struct sfab_gone *gone);
/* Entries in the payload, or -EPROTO; then each by its index. */
int sfab_frame_gone_count(const uint8_t *in, size_t len, uint32_t *count);
int sfab_frame_get_gone(const uint8_t *in, size_t index, struct sfab_gone *gone);

#endif
