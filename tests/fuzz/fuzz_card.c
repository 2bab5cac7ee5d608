/* fuzz_card.c - any bytes through the decoders of start-up cards and memory keys (fabric/card.h).
 *
 * What a decoder takes is a good card (texts end, lengths lie inside their fields) and encodes to
 * the same bytes again; and any card that can be made from the input survives encode and decode. */
#include "fabric/card.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

unsigned long sfab_fuzz_taken;

/* Larger than any card. */
#define CARD_BYTES 4096

static int ends(const char *text, size_t cap)
{
    return memchr(text, 0, cap) != NULL;
}

static int equal(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    return a_bytes == b_bytes && memcmp(a, b, a_bytes) == 0;
}

/* Field by field: padding does not count. */
static int equal_keys(const struct sfab_key *a, const struct sfab_key *b)
{
    return a->rank == b->rank && a->incarnation == b->incarnation && a->len_bytes == b->len_bytes &&
           a->access == b->access && a->words == b->words && a->transports == b->transports &&
           memcmp(a->transport, b->transport, sizeof a->transport) == 0;
}

static int equal_reaches(const struct sfab_reach *a, const struct sfab_reach *b)
{
    return a->incarnation == b->incarnation && a->world_block == b->world_block &&
           a->transports == b->transports &&
           memcmp(a->transport, b->transport, sizeof a->transport) == 0;
}

static void decode_identity(const uint8_t *data, size_t size)
{
    struct sfab_identity card;
    uint8_t out[CARD_BYTES];

    if (!sfab_identity_decode(data, size, &card))
        return;
    sfab_fuzz_taken++;
    MUST(ends(card.host, sizeof card.host) && ends(card.node, sizeof card.node));
    MUST(ends(card.transport, sizeof card.transport));
    MUST(equal(out, sfab_identity_encode(&card, out, sizeof out), data, size));
    MUST(sfab_identity_encode(&card, out, size - 1) == 0);
}

static void decode_reach(const uint8_t *data, size_t size)
{
    struct sfab_reach card;
    uint8_t out[CARD_BYTES];

    if (!sfab_reach_decode(data, size, &card))
        return;
    sfab_fuzz_taken++;
    MUST(card.transports <= SFAB_TRANSPORTS_MAX);
    for (uint32_t i = 0; i < card.transports; i++) {
        MUST(ends(card.transport[i].name, sizeof card.transport[i].name));
        MUST(card.transport[i].address_bytes <= sizeof card.transport[i].address);
        MUST(card.transport[i].arena_key_bytes <= sizeof card.transport[i].arena_key);
    }
    MUST(equal(out, sfab_reach_encode(&card, out, sizeof out), data, size));
}

static void decode_key(const uint8_t *data, size_t size)
{
    struct sfab_key card, again;
    uint8_t out[CARD_BYTES];

    if (!sfab_key_decode(data, size, &card))
        return;
    sfab_fuzz_taken++;
    MUST(card.transports <= SFAB_TRANSPORTS_MAX);
    for (uint32_t i = 0; i < card.transports; i++) {
        MUST(ends(card.transport[i].name, sizeof card.transport[i].name));
        MUST(card.transport[i].key_bytes <= sizeof card.transport[i].key);
    }
    /* `words` has many spellings of true, so the bytes may differ but not what they mean. */
    size_t bytes = sfab_key_encode(&card, out, sizeof out);
    MUST(bytes == size && sfab_key_decode(out, bytes, &again));
    MUST(equal_keys(&card, &again));
}

/* Takes bytes off the input; zeros once it is used up. */
struct source {
    const uint8_t *at, *end;
};

static void take(struct source *in, void *into, size_t count)
{
    size_t have = (size_t)(in->end - in->at);
    size_t n = count < have ? count : have;

    memset(into, 0, count);
    memcpy(into, in->at, n);
    in->at += n;
}

static uint32_t take_below(struct source *in, uint32_t limit)
{
    uint32_t value;

    take(in, &value, sizeof value);
    return value % limit;
}

static void take_text(struct source *in, char *text, size_t cap)
{
    size_t len = take_below(in, (uint32_t)cap);

    memset(text, 0, cap);
    take(in, text, len);
    memset(text + strlen(text), 0, cap - strlen(text));
}

static void round_trip_identity(struct source in)
{
    struct sfab_identity card = {0}, got;
    uint8_t out[CARD_BYTES];

    take(&in, &card.pid, sizeof card.pid);
    take(&in, &card.incarnation, sizeof card.incarnation);
    take(&in, &card.radix, sizeof card.radix);
    take(&in, &card.barrier, sizeof card.barrier);
    take_text(&in, card.host, sizeof card.host);
    take_text(&in, card.transport, sizeof card.transport);
    take_text(&in, card.node, sizeof card.node);
    take(&in, &card.cpus, sizeof card.cpus);
    size_t bytes = sfab_identity_encode(&card, out, sizeof out);
    MUST(bytes > 0 && sfab_identity_decode(out, bytes, &got));
    MUST(got.pid == card.pid && got.incarnation == card.incarnation && got.radix == card.radix &&
         got.barrier == card.barrier);
    MUST(strcmp(got.host, card.host) == 0 && strcmp(got.node, card.node) == 0 &&
         strcmp(got.transport, card.transport) == 0);
    MUST(memcmp(&got.cpus, &card.cpus, sizeof got.cpus) == 0);
    MUST(!sfab_identity_decode(out, bytes - 1, &got));
}

static void round_trip_reach(struct source in)
{
    struct sfab_reach card = {0}, got;
    uint8_t out[CARD_BYTES];

    take(&in, &card.incarnation, sizeof card.incarnation);
    take(&in, &card.world_block, sizeof card.world_block);
    card.transports = take_below(&in, SFAB_TRANSPORTS_MAX + 1);
    for (uint32_t i = 0; i < card.transports; i++) {
        take_text(&in, card.transport[i].name, sizeof card.transport[i].name);
        card.transport[i].address_bytes = take_below(&in, SFAB_TP_ADDRESS_MAX + 1);
        take(&in, card.transport[i].address, card.transport[i].address_bytes);
        card.transport[i].arena_key_bytes = take_below(&in, SFAB_TP_KEY_MAX + 1);
        take(&in, card.transport[i].arena_key, card.transport[i].arena_key_bytes);
    }
    size_t bytes = sfab_reach_encode(&card, out, sizeof out);
    MUST(bytes > 0 && sfab_reach_decode(out, bytes, &got));
    MUST(equal_reaches(&got, &card));
    MUST(!sfab_reach_decode(out, bytes - 1, &got));
}

static void round_trip_key(struct source in)
{
    struct sfab_key card = {0}, got;
    uint8_t out[CARD_BYTES];

    take(&in, &card.rank, sizeof card.rank);
    take(&in, &card.incarnation, sizeof card.incarnation);
    take(&in, &card.len_bytes, sizeof card.len_bytes);
    card.access = take_below(&in, 256);
    card.words = take_below(&in, 2) != 0;
    card.transports = take_below(&in, SFAB_TRANSPORTS_MAX + 1);
    for (uint32_t i = 0; i < card.transports; i++) {
        take_text(&in, card.transport[i].name, sizeof card.transport[i].name);
        card.transport[i].key_bytes = take_below(&in, SFAB_TP_KEY_MAX + 1);
        take(&in, card.transport[i].key, card.transport[i].key_bytes);
    }
    size_t bytes = sfab_key_encode(&card, out, sizeof out);
    MUST(bytes > 0 && sfab_key_decode(out, bytes, &got));
    MUST(equal_keys(&got, &card));
    MUST(!sfab_key_decode(out, bytes - 1, &got));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct source in = {.at = data, .end = data + size};

    decode_identity(data, size);
    decode_reach(data, size);
    decode_key(data, size);
    round_trip_identity(in);
    round_trip_reach(in);
    round_trip_key(in);
    return 0;
}
