/* wire.h - reading and writing fixed-width little-endian fields of outside bytes, with bounds.
 *
 * A reader that has run over its end stays failed and returns zeros: check once, at the end. */
#ifndef SFAB_FABRIC_WIRE_H
#define SFAB_FABRIC_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct sfab_writer {
    uint8_t *at, *end;
    bool failed;
};

struct sfab_reader {
    const uint8_t *at, *end;
    bool failed;
};

static inline struct sfab_writer sfab_writer_on(void *buf, size_t cap)
{
    return (struct sfab_writer){.at = buf, .end = (uint8_t *)buf + cap};
}

static inline struct sfab_reader sfab_reader_on(const void *buf, size_t len)
{
    return (struct sfab_reader){.at = buf, .end = (const uint8_t *)buf + len};
}

static inline void sfab_write_uint(struct sfab_writer *w, uint64_t value, unsigned bytes)
{
    if (w->failed || (size_t)(w->end - w->at) < bytes) {
        w->failed = true;
        return;
    }
    for (unsigned i = 0; i < bytes; i++)
        *w->at++ = (uint8_t)(value >> (8 * i));
}

static inline uint64_t sfab_read_uint(struct sfab_reader *r, unsigned bytes)
{
    uint64_t value = 0;

    if (r->failed || (size_t)(r->end - r->at) < bytes) {
        r->failed = true;
        return 0;
    }
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)*r->at++ << (8 * i);
    return value;
}

/* len (2 bytes), then the bytes. */
static inline void sfab_write_bytes(struct sfab_writer *w, const void *data, size_t len)
{
    sfab_write_uint(w, len, 2);
    if (w->failed || len > UINT16_MAX || (size_t)(w->end - w->at) < len) {
        w->failed = true;
        return;
    }
    if (len > 0)
        memcpy(w->at, data, len);
    w->at += len;
}

/* Points into the buffer that is read. */
static inline const uint8_t *sfab_read_bytes(struct sfab_reader *r, size_t *len)
{
    size_t n = (size_t)sfab_read_uint(r, 2);

    if (r->failed || (size_t)(r->end - r->at) < n) {
        r->failed = true;
        *len = 0;
        return r->end;
    }
    r->at += n;
    *len = n;
    return r->at - n;
}

/* A string into text[cap], terminated; too long or holding a zero byte is a failure. */
static inline void sfab_read_text(struct sfab_reader *r, char *text, size_t cap)
{
    size_t len;
    const uint8_t *bytes = sfab_read_bytes(r, &len);

    text[0] = '\0';
    if (r->failed || len >= cap || memchr(bytes, 0, len) != NULL) {
        r->failed = true;
        return;
    }
    memcpy(text, bytes, len);
    text[len] = '\0';
}

#endif
