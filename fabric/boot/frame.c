/* frame.c - encoding and decoding of the bootstrap's frames. Pure; this is what gets fuzzed. */
#include "fabric/boot/frame.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static const uint8_t hello_magic[8] = {'S', 'Y', 'N', 'C', 'F', 'A', 'B', 0};

/* ---- cursors: a step that does not fit marks the cursor bad, and all later steps do nothing ----
 */

struct writer {
    uint8_t *at;
    size_t left, done;
    bool bad;
};

struct reader {
    const uint8_t *at;
    size_t left;
    bool bad;
};

static void put_bytes(struct writer *w, const void *bytes, size_t len)
{
    if (w->bad || len > w->left) {
        w->bad = true;
        return;
    }
    if (len > 0) {
        memcpy(w->at, bytes, len);
        w->at += len;
    }
    w->left -= len;
    w->done += len;
}

static void put_number(struct writer *w, uint64_t value, size_t bytes)
{
    uint8_t be[8];
    for (size_t i = 0; i < bytes; i++) {
        be[i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
    }
    put_bytes(w, be, bytes);
}

/* Length in one byte, then the text. */
static void put_text(struct writer *w, const char *text, size_t cap)
{
    size_t len = strnlen(text, cap);
    if (len >= cap || len > 255) {
        w->bad = true;
        return;
    }
    put_number(w, len, 1);
    put_bytes(w, text, len);
}

static size_t written(const struct writer *w)
{
    return w->bad ? 0 : w->done;
}

static const uint8_t *get_bytes(struct reader *r, size_t len)
{
    if (r->bad || len > r->left) {
        r->bad = true;
        return NULL;
    }
    const uint8_t *bytes = r->at;
    r->at += len;
    r->left -= len;
    return bytes;
}

static uint64_t get_number(struct reader *r, size_t bytes)
{
    const uint8_t *be = get_bytes(r, bytes);
    uint64_t value = 0;
    for (size_t i = 0; be != NULL && i < bytes; i++) {
        value = value << 8 | be[i];
    }
    return value;
}

/* Text goes to logs and terminals: only printable characters pass. */
static void copy_clean(char *out, const uint8_t *in, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        out[i] = in[i] >= 0x20 && in[i] < 0x7f ? (char)in[i] : '?';
    }
    out[len] = '\0';
}

static void get_text(struct reader *r, char *out, size_t cap)
{
    size_t len = (size_t)get_number(r, 1);
    const uint8_t *text = get_bytes(r, len);
    if (text == NULL || len >= cap) {
        r->bad = true;
        return;
    }
    copy_clean(out, text, len);
}

/* 0 when everything was there and nothing is left over. */
static int finished(const struct reader *r)
{
    return r->bad || r->left != 0 ? -EPROTO : 0;
}

/* ---- header ------------------------------------------------------------------------------ */

void sfab_frame_put_header(uint8_t out[SFAB_FRAME_HEADER_BYTES], uint16_t type, uint32_t len_bytes)
{
    struct writer w = {.at = out, .left = SFAB_FRAME_HEADER_BYTES};
    put_number(&w, len_bytes, 4);
    put_number(&w, type, 2);
    put_number(&w, 0, 2);
}

int sfab_frame_get_header(const uint8_t in[SFAB_FRAME_HEADER_BYTES], uint32_t max_bytes,
                          struct sfab_frame_header *out)
{
    struct reader r = {.at = in, .left = SFAB_FRAME_HEADER_BYTES};
    uint32_t len = (uint32_t)get_number(&r, 4);
    uint16_t type = (uint16_t)get_number(&r, 2);
    uint64_t reserved = get_number(&r, 2);
    if (finished(&r) != 0 || len > max_bytes || type == 0 || type >= SFAB_FRAME_TYPES ||
        reserved != 0) {
        return -EPROTO;
    }
    out->len_bytes = len;
    out->type = type;
    return 0;
}

/* ---- joining ----------------------------------------------------------------------------- */

size_t sfab_frame_put_hello(uint8_t *out, size_t cap, const struct sfab_hello *hello)
{
    struct writer w = {.at = out, .left = cap};
    put_bytes(&w, hello_magic, sizeof hello_magic);
    put_number(&w, hello->wire_version, 4);
    put_number(&w, hello->rank, 4);
    put_number(&w, hello->size, 4);
    put_bytes(&w, hello->nonce, sizeof hello->nonce);
    put_text(&w, hello->version, sizeof hello->version);
    put_text(&w, hello->host, sizeof hello->host);
    return written(&w);
}

int sfab_frame_get_hello(const uint8_t *in, size_t len, struct sfab_hello *hello)
{
    struct reader r = {.at = in, .left = len};
    struct sfab_hello h = {0};
    const uint8_t *magic = get_bytes(&r, sizeof hello_magic);
    if (magic == NULL || memcmp(magic, hello_magic, sizeof hello_magic) != 0) {
        return -EPROTO;
    }
    h.wire_version = (uint32_t)get_number(&r, 4);
    h.rank = (uint32_t)get_number(&r, 4);
    h.size = (uint32_t)get_number(&r, 4);
    const uint8_t *nonce = get_bytes(&r, sizeof h.nonce);
    if (nonce != NULL) {
        memcpy(h.nonce, nonce, sizeof h.nonce);
    }
    get_text(&r, h.version, sizeof h.version);
    get_text(&r, h.host, sizeof h.host);
    /* Another version may say more: it is to be told so, not to be taken for garbage. */
    if (r.bad || (r.left != 0 && h.wire_version == SFAB_WIRE_VERSION)) {
        return -EPROTO;
    }
    *hello = h;
    return 0;
}

int sfab_frame_get_bytes32(const uint8_t *in, size_t len, uint8_t out[32])
{
    if (len != 32) {
        return -EPROTO;
    }
    memcpy(out, in, 32);
    return 0;
}

size_t sfab_frame_put_u64(uint8_t *out, size_t cap, uint64_t value)
{
    struct writer w = {.at = out, .left = cap};
    put_number(&w, value, 8);
    return written(&w);
}

int sfab_frame_get_u64(const uint8_t *in, size_t len, uint64_t *value)
{
    struct reader r = {.at = in, .left = len};
    uint64_t v = get_number(&r, 8);
    if (finished(&r) != 0) {
        return -EPROTO;
    }
    *value = v;
    return 0;
}

size_t sfab_frame_put_verdict(uint8_t *out, size_t cap, const struct sfab_verdict *verdict)
{
    struct writer w = {.at = out, .left = cap};
    put_number(&w, verdict->tag, 8);
    put_number(&w, (uint32_t)verdict->code, 4);
    put_bytes(&w, verdict->text, strnlen(verdict->text, SFAB_FRAME_TEXT_MAX));
    return written(&w);
}

int sfab_frame_get_verdict(const uint8_t *in, size_t len, struct sfab_verdict *verdict)
{
    struct reader r = {.at = in, .left = len};
    uint64_t tag = get_number(&r, 8);
    uint32_t code = (uint32_t)get_number(&r, 4);
    /* Negative, and small enough to be negated. */
    if (r.bad || code < 0x80000001u || r.left > SFAB_FRAME_TEXT_MAX) {
        return -EPROTO;
    }
    verdict->tag = tag;
    verdict->code = -(int32_t)(UINT32_MAX - code) - 1;
    copy_clean(verdict->text, r.at, r.left);
    return 0;
}

/* ---- exchanges --------------------------------------------------------------------------- */

size_t sfab_frame_put_cancel(uint8_t *out, size_t cap, const struct sfab_cancel *cancel)
{
    struct writer w = {.at = out, .left = cap};
    put_number(&w, cancel->tag, 8);
    put_number(&w, cancel->waited_ms, 8);
    return written(&w);
}

int sfab_frame_get_cancel(const uint8_t *in, size_t len, struct sfab_cancel *cancel)
{
    struct reader r = {.at = in, .left = len};
    uint64_t tag = get_number(&r, 8);
    uint64_t waited_ms = get_number(&r, 8);
    if (finished(&r) != 0) {
        return -EPROTO;
    }
    *cancel = (struct sfab_cancel){.tag = tag, .waited_ms = waited_ms};
    return 0;
}

uint32_t sfab_frame_u32_at(const uint8_t *be, size_t index)
{
    struct reader r = {.at = be + 4 * index, .left = 4};
    return (uint32_t)get_number(&r, 4);
}

static size_t put_table_head(uint8_t *out, size_t cap, uint64_t tag, const uint32_t *numbers,
                             uint32_t count)
{
    struct writer w = {.at = out, .left = cap};
    put_number(&w, tag, 8);
    put_number(&w, count, 4);
    for (uint32_t i = 0; i < count; i++) {
        put_number(&w, numbers[i], 4);
    }
    return written(&w);
}

size_t sfab_frame_gather_bytes(uint32_t count)
{
    return 12 + 4 * (size_t)count;
}

size_t sfab_frame_put_gather(uint8_t *out, size_t cap, uint64_t tag, const uint32_t *members,
                             uint32_t count)
{
    return put_table_head(out, cap, tag, members, count);
}

int sfab_frame_get_gather(const uint8_t *in, size_t len, size_t blob_max,
                          struct sfab_gather *gather)
{
    struct reader r = {.at = in, .left = len};
    uint64_t tag = get_number(&r, 8);
    uint32_t count = (uint32_t)get_number(&r, 4);
    const uint8_t *members = get_bytes(&r, 4 * (size_t)count);
    if (r.bad || r.left > blob_max) {
        return -EPROTO;
    }
    *gather = (struct sfab_gather){
        .tag = tag, .count = count, .members_be = members, .blob = r.at, .blob_bytes = r.left};
    return 0;
}

size_t sfab_frame_gathered_bytes(uint32_t count)
{
    return 12 + 4 * (size_t)count;
}

size_t sfab_frame_put_gathered(uint8_t *out, size_t cap, uint64_t tag, const uint32_t *lens,
                               uint32_t count)
{
    return put_table_head(out, cap, tag, lens, count);
}

/* less: what each length is too large by; a 0 stays 0. */
static int get_table(const uint8_t *in, size_t len, size_t blob_max, uint32_t less,
                     struct sfab_gathered *gathered)
{
    struct reader r = {.at = in, .left = len};
    uint64_t tag = get_number(&r, 8);
    uint32_t count = (uint32_t)get_number(&r, 4);
    const uint8_t *lens = get_bytes(&r, 4 * (size_t)count);
    if (r.bad) {
        return -EPROTO;
    }
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t blob_bytes = sfab_frame_u32_at(lens, i);
        blob_bytes -= blob_bytes > 0 ? less : 0;
        if (blob_bytes > blob_max) {
            return -EPROTO;
        }
        total += blob_bytes;
    }
    if (total != r.left) {
        return -EPROTO;
    }
    *gathered = (struct sfab_gathered){
        .tag = tag, .count = count, .lens_be = lens, .blobs = r.at, .blobs_bytes = r.left};
    return 0;
}

int sfab_frame_get_gathered(const uint8_t *in, size_t len, size_t blob_max,
                            struct sfab_gathered *gathered)
{
    return get_table(in, len, blob_max, 0, gathered);
}

int sfab_frame_get_surveyed(const uint8_t *in, size_t len, size_t blob_max,
                            struct sfab_gathered *surveyed)
{
    return get_table(in, len, blob_max, 1, surveyed);
}

/* ---- messages and departures ------------------------------------------------------------- */

size_t sfab_frame_put_message_head(uint8_t *out, size_t cap, uint32_t rank, uint16_t channel)
{
    struct writer w = {.at = out, .left = cap};
    put_number(&w, rank, 4);
    put_number(&w, channel, 2);
    return written(&w);
}

int sfab_frame_get_message(const uint8_t *in, size_t len, size_t data_max,
                           struct sfab_message *message)
{
    struct reader r = {.at = in, .left = len};
    uint32_t rank = (uint32_t)get_number(&r, 4);
    uint16_t channel = (uint16_t)get_number(&r, 2);
    if (r.bad || r.left > data_max) {
        return -EPROTO;
    }
    *message =
        (struct sfab_message){.rank = rank, .channel = channel, .data = r.at, .len_bytes = r.left};
    return 0;
}

void sfab_frame_get_text(const struct sfab_message *message, char *text, size_t cap)
{
    copy_clean(text, message->data, message->len_bytes < cap ? message->len_bytes : cap - 1);
}

void sfab_frame_put_gone(uint8_t out[SFAB_FRAME_GONE_BYTES], const struct sfab_gone *gone)
{
    struct writer w = {.at = out, .left = SFAB_FRAME_GONE_BYTES};
    put_number(&w, gone->rank, 4);
    put_number(&w, gone->how, 4);
    put_number(&w, gone->goodbye, 8);
}

int sfab_frame_gone_count(const uint8_t *in, size_t len, uint32_t *count)
{
    (void)in;
    if (len == 0 || len % SFAB_FRAME_GONE_BYTES != 0 || len / SFAB_FRAME_GONE_BYTES > UINT32_MAX) {
        return -EPROTO;
    }
    *count = (uint32_t)(len / SFAB_FRAME_GONE_BYTES);
    return 0;
}

int sfab_frame_get_gone(const uint8_t *in, size_t index, struct sfab_gone *gone)
{
    struct reader r = {.at = in + index * SFAB_FRAME_GONE_BYTES, .left = SFAB_FRAME_GONE_BYTES};
    uint32_t rank = (uint32_t)get_number(&r, 4);
    uint32_t how = (uint32_t)get_number(&r, 4);
    uint64_t goodbye = get_number(&r, 8);
    if (how > 1) {
        return -EPROTO;
    }
    *gone = (struct sfab_gone){.rank = rank, .how = how, .goodbye = goodbye};
    return 0;
}
