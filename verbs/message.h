/* message.h - the bytes that verbs transports of different ranks exchange, and their checks.
 *
 * Pure encode and decode of wire-up messages, addresses and memory keys; no I/O. All fields are
 * little-endian. Decoders are given bytes from outside: they check lengths and ranges and write
 * their output only when all of it is good. */
#ifndef SFAB_VERBS_MESSAGE_H
#define SFAB_VERBS_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SFAB_VB_GID_BYTES  16
#define SFAB_VB_TEXT_BYTES 200

enum sfab_vb_kind {
    SFAB_VB_CONN = 1,   /* here is my queue pair */
    SFAB_VB_READY = 2,  /* my queue pair takes what you send */
    SFAB_VB_REFUSE = 3, /* I cannot connect: why */
    SFAB_VB_ASK = 4     /* rdma_cm: my endpoint is there, let us connect */
};

struct sfab_vb_conn {
    uint32_t qpn, psn; /* 24 bits each */
    uint16_t lid;
    uint8_t gid[SFAB_VB_GID_BYTES];
    uint8_t mtu;       /* enum ibv_mtu */
    uint8_t rd_atomic; /* reads and atomics that it takes in flight */
    bool ready;        /* stands for a READY as well */
};

struct sfab_vb_message {
    enum sfab_vb_kind kind;
    struct sfab_vb_conn conn;      /* CONN */
    char text[SFAB_VB_TEXT_BYTES]; /* REFUSE */
};

/* What a rank says of its transport in address(). */
struct sfab_vb_address {
    uint8_t link_layer; /* IBV_LINK_LAYER_ */
    uint8_t mtu;
    uint8_t cm; /* enum sfab_verbs_cm */
    uint16_t lid;
    uint8_t gid[SFAB_VB_GID_BYTES];
    uint64_t boot_id;                 /* of the host's running kernel */
    uint64_t nonce;                   /* of the transport */
    uint16_t cm_port;                 /* rdma_cm: where it listens, host order */
    uint8_t cm_ip[SFAB_VB_GID_BYTES]; /* IPv6, or IPv4 mapped into it */
};

/* How a piece of memory is reached. */
struct sfab_vb_key {
    uint64_t addr, len_bytes;
    uint32_t rkey;
};

/* What the active side of an rdma_cm connection says of itself, within private data. */
struct sfab_vb_hello {
    uint32_t rank;
    uint64_t nonce;      /* its own */
    uint64_t peer_nonce; /* of the rank it wants */
};

/* Encoders return the number of bytes written, 0 when cap is too small. */
size_t sfab_vb_message_encode(const struct sfab_vb_message *message, uint8_t *buf, size_t cap);
size_t sfab_vb_address_encode(const struct sfab_vb_address *address, uint8_t *buf, size_t cap);
size_t sfab_vb_key_encode(const struct sfab_vb_key *key, uint8_t *buf, size_t cap);
size_t sfab_vb_hello_encode(const struct sfab_vb_hello *hello, uint8_t *buf, size_t cap);

/* Decoders return whether the bytes are such a thing. hello may be followed by other bytes: rdma_cm
 * pads private data. */
bool sfab_vb_message_decode(const uint8_t *data, size_t len, struct sfab_vb_message *out);
bool sfab_vb_address_decode(const uint8_t *data, size_t len, struct sfab_vb_address *out);
bool sfab_vb_key_decode(const uint8_t *data, size_t len, struct sfab_vb_key *out);
bool sfab_vb_hello_decode(const uint8_t *data, size_t len, struct sfab_vb_hello *out);

#endif
