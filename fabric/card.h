/* card.h - what ranks tell each other of themselves while a job starts, and its wire form.
 *
 * Two cards a rank: first who it is (so that everybody knows who shares a node with whom), then how it
 * is reached (only the transports that this job needs were opened meanwhile). Pure encode and decode;
 * the bytes come from outside and are checked. */
#ifndef SFAB_FABRIC_CARD_H
#define SFAB_FABRIC_CARD_H

#include "fabric/transport.h"

#define SFAB_TRANSPORTS_MAX 4
#define SFAB_HOST_BYTES     64
#define SFAB_NODE_BYTES     192
#define SFAB_CPUS_MAX       1024

struct sfab_cpu_mask {
    uint64_t bits[SFAB_CPUS_MAX / 64];
};

struct sfab_identity {
    uint32_t pid;
    uint64_t incarnation;
    char host[SFAB_HOST_BYTES];
    char node[SFAB_NODE_BYTES]; /* equal: memory can be shared */
    struct sfab_cpu_mask cpus;  /* where this process may run */
    uint32_t radix, barrier;    /* settings that must agree */
    char transport[32];
};

struct sfab_reach {
    uint64_t incarnation;
    uint64_t world_block; /* offset of the world group's block in the arena */
    uint32_t transports;
    struct {
        char name[16];
        uint8_t address[SFAB_TP_ADDRESS_MAX];
        uint32_t address_bytes;
        uint8_t arena_key[SFAB_TP_KEY_MAX];
        uint32_t arena_key_bytes;
    } transport[SFAB_TRANSPORTS_MAX];
};

/* The key of a piece of memory, as sfab_mem_key hands it out. */
struct sfab_key {
    uint32_t rank;
    uint64_t incarnation;
    uint64_t len_bytes;
    uint32_t access; /* SFAB_REMOTE_* */
    bool words;      /* words in it can be targets */
    uint32_t transports;
    struct {
        char name[16];
        uint8_t key[SFAB_TP_KEY_MAX];
        uint32_t key_bytes;
    } transport[SFAB_TRANSPORTS_MAX];
};

/* Each returns the bytes written, 0 when cap is too small. */
size_t sfab_identity_encode(const struct sfab_identity *identity, uint8_t *buf, size_t cap);
size_t sfab_reach_encode(const struct sfab_reach *reach, uint8_t *buf, size_t cap);
size_t sfab_key_encode(const struct sfab_key *key, uint8_t *buf, size_t cap);

/* Each returns whether the bytes are such a card; *out is written only then. */
bool sfab_identity_decode(const uint8_t *buf, size_t len, struct sfab_identity *out);
bool sfab_reach_decode(const uint8_t *buf, size_t len, struct sfab_reach *out);
bool sfab_key_decode(const uint8_t *buf, size_t len, struct sfab_key *out);

#endif
