/* card.c - wire forms of the start-up cards and of memory keys. */
#include "fabric/card.h"
#include "fabric/wire.h"

enum { TAG_IDENTITY = 0x31444953, TAG_REACH = 0x31484352, TAG_KEY = 0x3159454b };

static void write_text(struct sfab_writer *w, const char *text)
{
    sfab_write_bytes(w, text, strlen(text));
}

static size_t finish(const struct sfab_writer *w, const uint8_t *buf)
{
    return w->failed ? 0 : (size_t)(w->at - buf);
}

static bool complete(const struct sfab_reader *r)
{
    return !r->failed && r->at == r->end;
}

/* Bytes of limited length into a fixed field. */
static uint32_t read_field(struct sfab_reader *r, uint8_t *field, size_t cap)
{
    size_t len;
    const uint8_t *bytes = sfab_read_bytes(r, &len);

    if (len > cap) {
        r->failed = true;
        return 0;
    }
    if (len > 0)
        memcpy(field, bytes, len);
    return (uint32_t)len;
}

size_t sfab_identity_encode(const struct sfab_identity *identity, uint8_t *buf, size_t cap)
{
    struct sfab_writer w = sfab_writer_on(buf, cap);

    sfab_write_uint(&w, TAG_IDENTITY, 4);
    sfab_write_uint(&w, identity->pid, 4);
    sfab_write_uint(&w, identity->incarnation, 8);
    write_text(&w, identity->host);
    write_text(&w, identity->node);
    for (unsigned i = 0; i < SFAB_CPUS_MAX / 64; i++)
        sfab_write_uint(&w, identity->cpus.bits[i], 8);
    sfab_write_uint(&w, identity->radix, 4);
    sfab_write_uint(&w, identity->barrier, 4);
    write_text(&w, identity->transport);
    return finish(&w, buf);
}

bool sfab_identity_decode(const uint8_t *buf, size_t len, struct sfab_identity *out)
{
    struct sfab_reader r = sfab_reader_on(buf, len);
    struct sfab_identity got = {0};

    if (sfab_read_uint(&r, 4) != TAG_IDENTITY)
        return false;
    got.pid = (uint32_t)sfab_read_uint(&r, 4);
    got.incarnation = sfab_read_uint(&r, 8);
    sfab_read_text(&r, got.host, sizeof got.host);
    sfab_read_text(&r, got.node, sizeof got.node);
    for (unsigned i = 0; i < SFAB_CPUS_MAX / 64; i++)
        got.cpus.bits[i] = sfab_read_uint(&r, 8);
    got.radix = (uint32_t)sfab_read_uint(&r, 4);
    got.barrier = (uint32_t)sfab_read_uint(&r, 4);
    sfab_read_text(&r, got.transport, sizeof got.transport);
    if (!complete(&r))
        return false;
    *out = got;
    return true;
}

size_t sfab_reach_encode(const struct sfab_reach *reach, uint8_t *buf, size_t cap)
{
    struct sfab_writer w = sfab_writer_on(buf, cap);

    sfab_write_uint(&w, TAG_REACH, 4);
    sfab_write_uint(&w, reach->incarnation, 8);
    sfab_write_uint(&w, reach->world_block, 8);
    sfab_write_uint(&w, reach->transports, 1);
    for (uint32_t i = 0; i < reach->transports; i++) {
        write_text(&w, reach->transport[i].name);
        sfab_write_bytes(&w, reach->transport[i].address, reach->transport[i].address_bytes);
        sfab_write_bytes(&w, reach->transport[i].arena_key, reach->transport[i].arena_key_bytes);
    }
    return finish(&w, buf);
}

bool sfab_reach_decode(const uint8_t *buf, size_t len, struct sfab_reach *out)
{
    struct sfab_reader r = sfab_reader_on(buf, len);
    struct sfab_reach got = {0};

    if (sfab_read_uint(&r, 4) != TAG_REACH)
        return false;
    got.incarnation = sfab_read_uint(&r, 8);
    got.world_block = sfab_read_uint(&r, 8);
    got.transports = (uint32_t)sfab_read_uint(&r, 1);
    if (got.transports > SFAB_TRANSPORTS_MAX)
        return false;
    for (uint32_t i = 0; i < got.transports; i++) {
        sfab_read_text(&r, got.transport[i].name, sizeof got.transport[i].name);
        got.transport[i].address_bytes =
            read_field(&r, got.transport[i].address, sizeof got.transport[i].address);
        got.transport[i].arena_key_bytes =
            read_field(&r, got.transport[i].arena_key, sizeof got.transport[i].arena_key);
    }
    if (!complete(&r))
        return false;
    *out = got;
    return true;
}

size_t sfab_key_encode(const struct sfab_key *key, uint8_t *buf, size_t cap)
{
    struct sfab_writer w = sfab_writer_on(buf, cap);

    sfab_write_uint(&w, TAG_KEY, 4);
    sfab_write_uint(&w, key->rank, 4);
    sfab_write_uint(&w, key->incarnation, 8);
    sfab_write_uint(&w, key->len_bytes, 8);
    sfab_write_uint(&w, key->access, 1);
    sfab_write_uint(&w, key->words, 1);
    sfab_write_uint(&w, key->transports, 1);
    for (uint32_t i = 0; i < key->transports; i++) {
        write_text(&w, key->transport[i].name);
        sfab_write_bytes(&w, key->transport[i].key, key->transport[i].key_bytes);
    }
    return finish(&w, buf);
}

bool sfab_key_decode(const uint8_t *buf, size_t len, struct sfab_key *out)
{
    struct sfab_reader r = sfab_reader_on(buf, len);
    struct sfab_key got = {0};

    if (sfab_read_uint(&r, 4) != TAG_KEY)
        return false;
    got.rank = (uint32_t)sfab_read_uint(&r, 4);
    got.incarnation = sfab_read_uint(&r, 8);
    got.len_bytes = sfab_read_uint(&r, 8);
    got.access = (uint32_t)sfab_read_uint(&r, 1);
    got.words = sfab_read_uint(&r, 1) != 0;
    got.transports = (uint32_t)sfab_read_uint(&r, 1);
    if (got.transports > SFAB_TRANSPORTS_MAX)
        return false;
    for (uint32_t i = 0; i < got.transports; i++) {
        sfab_read_text(&r, got.transport[i].name, sizeof got.transport[i].name);
        got.transport[i].key_bytes =
            read_field(&r, got.transport[i].key, sizeof got.transport[i].key);
    }
    if (!complete(&r))
        return false;
    *out = got;
    return true;
}
