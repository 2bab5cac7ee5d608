/* stream.c - frames over a socket, buffered both ways. */
#include "fabric/boot/stream.h"

#include "fabric/boot/forked.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define IN_FIRST_BYTES 1024
#define IN_KEEP_BYTES  65536 /* a buffer above this is given back once it is empty */
#define CHUNKS_AT_ONCE 16

/* One frame in the output queue. */
struct sfab_chunk {
    struct sfab_chunk *next;
    struct sfab_payload *payload;
    bool shared;
    size_t sent;      /* of header, payload and MAC together */
    size_t mac_bytes; /* 0 or SFAB_FRAME_MAC_BYTES */
    uint8_t header[SFAB_FRAME_HEADER_BYTES];
    uint8_t mac[SFAB_FRAME_MAC_BYTES];
};

/* ---- payloads ---------------------------------------------------------------------------- */

struct sfab_payload *sfab_payload_new(size_t len)
{
    if (len > UINT32_MAX) {
        return NULL;
    }
    struct sfab_payload *payload = malloc(sizeof *payload + len);
    if (payload != NULL) {
        payload->refs = 1;
        payload->len_bytes = (uint32_t)len;
    }
    return payload;
}

int sfab_payload_seal(struct sfab_payload *payload)
{
    return sfab_auth_digest(payload->bytes, payload->len_bytes, payload->digest);
}

void sfab_payload_drop(struct sfab_payload *payload)
{
    if (payload != NULL && --payload->refs == 0) {
        free(payload);
    }
}

/* ---- both sides -------------------------------------------------------------------------- */

void sfab_stream_init(struct sfab_stream *stream, int fd, uint32_t max_bytes)
{
    *stream = (struct sfab_stream){.fd = fd, .in = {.max_bytes = max_bytes}};
    sfab_forked_close(fd);
}

static void drop_first(struct sfab_stream_out *out)
{
    struct sfab_chunk *chunk = out->first;
    out->first = chunk->next;
    if (out->first == NULL) {
        out->last = NULL;
    }
    if (!chunk->shared) {
        out->own_bytes -= chunk->payload->len_bytes;
    }
    sfab_payload_drop(chunk->payload);
    free(chunk);
}

void sfab_stream_end(struct sfab_stream *stream)
{
    while (stream->out.first != NULL) {
        drop_first(&stream->out);
    }
    sfab_auth_channel_free(stream->in.channel);
    sfab_auth_channel_free(stream->out.channel);
    free(stream->in.bytes);
    if (stream->fd >= 0) {
        sfab_forked_forget(stream->fd);
        close(stream->fd);
    }
    *stream = (struct sfab_stream){.fd = -1};
}

int sfab_stream_secure_in(struct sfab_stream *stream, const uint8_t *session,
                          enum sfab_auth_direction direction)
{
    return sfab_auth_channel_new(session, direction, &stream->in.channel);
}

int sfab_stream_secure_out(struct sfab_stream *stream, const uint8_t *session,
                           enum sfab_auth_direction direction)
{
    return sfab_auth_channel_new(session, direction, &stream->out.channel);
}

/* ---- input ------------------------------------------------------------------------------- */

/* Bytes of the whole frame that begins at start, or 0 while its header is not there. */
static int frame_bytes(const struct sfab_stream_in *in, size_t *whole, struct sfab_frame_header *h)
{
    *whole = 0;
    if (in->end - in->start < SFAB_FRAME_HEADER_BYTES) {
        return 0;
    }
    int status = sfab_frame_get_header(in->bytes + in->start, in->max_bytes, h);
    if (status == 0) {
        *whole = SFAB_FRAME_HEADER_BYTES + (size_t)h->len_bytes +
                 (in->channel != NULL ? SFAB_FRAME_MAC_BYTES : 0);
    }
    return status;
}

/* Makes room behind end: for the rest of the frame that has begun, or for some bytes. */
static int make_room(struct sfab_stream_in *in)
{
    struct sfab_frame_header header;
    size_t want = 0;
    size_t used = in->end - in->start;
    if (frame_bytes(in, &want, &header) != 0) {
        return -EPROTO;
    }
    if (in->start > 0 && (used == 0 || in->start + want > in->cap || in->end == in->cap)) {
        memmove(in->bytes, in->bytes + in->start, used);
        in->start = 0;
        in->end = used;
    }
    if (used == 0 && in->cap > IN_KEEP_BYTES) {
        free(in->bytes);
        in->bytes = NULL;
        in->cap = 0;
        in->end = 0;
    }
    /* A large frame's buffer grows with the bytes that have really come. */
    size_t cap = in->cap < IN_FIRST_BYTES ? IN_FIRST_BYTES : in->cap;
    if (in->end == cap || (want > cap && in->end * 2 >= cap)) {
        cap = cap * 2;
    }
    if (cap == in->cap) {
        return 0;
    }
    uint8_t *bytes = realloc(in->bytes, cap);
    if (bytes == NULL) {
        return -ENOMEM;
    }
    in->bytes = bytes;
    in->cap = cap;
    return 0;
}

static void consume(struct sfab_stream_in *in)
{
    in->start += in->taken;
    in->taken = 0;
    if (in->start == in->end) {
        in->start = in->end = 0;
    }
}

ssize_t sfab_stream_fill(struct sfab_stream *stream)
{
    struct sfab_stream_in *in = &stream->in;
    if (!in->held) {
        consume(in);
    }
    int status = make_room(in);
    if (status != 0) {
        return status;
    }
    for (;;) {
        ssize_t n = recv(stream->fd, in->bytes + in->end, in->cap - in->end, MSG_DONTWAIT);
        if (n >= 0) {
            in->end += (size_t)n;
            return n;
        }
        if (errno != EINTR) {
            return -errno;
        }
    }
}

int sfab_stream_next(struct sfab_stream *stream, struct sfab_frame *frame)
{
    struct sfab_stream_in *in = &stream->in;
    bool again = in->held;
    in->held = false;
    if (!again) {
        consume(in);
    }
    struct sfab_frame_header header;
    size_t whole;
    int status = frame_bytes(in, &whole, &header);
    if (status != 0) {
        return status;
    }
    if (whole == 0 || in->end - in->start < whole) {
        return 0;
    }
    const uint8_t *at = in->bytes + in->start;
    const uint8_t *payload = at + SFAB_FRAME_HEADER_BYTES;
    if (in->channel != NULL && !again) {
        status =
            sfab_auth_check(in->channel, at, payload, header.len_bytes, payload + header.len_bytes);
        if (status != 0) {
            return status;
        }
    }
    in->taken = whole;
    *frame =
        (struct sfab_frame){.type = header.type, .payload = payload, .len_bytes = header.len_bytes};
    return 1;
}

void sfab_stream_hold(struct sfab_stream *stream)
{
    stream->in.held = true;
}

/* ---- output ------------------------------------------------------------------------------ */

int sfab_stream_queue(struct sfab_stream *stream, uint16_t type, struct sfab_payload *payload,
                      bool shared)
{
    struct sfab_stream_out *out = &stream->out;
    struct sfab_chunk *chunk = calloc(1, sizeof *chunk);
    if (chunk == NULL) {
        return -ENOMEM;
    }
    sfab_frame_put_header(chunk->header, type, payload->len_bytes);
    if (out->channel != NULL) {
        int status = sfab_auth_mac(out->channel, chunk->header, payload->digest, chunk->mac);
        if (status != 0) {
            free(chunk);
            return status;
        }
        chunk->mac_bytes = SFAB_FRAME_MAC_BYTES;
    }
    payload->refs++;
    chunk->payload = payload;
    chunk->shared = shared;
    if (!shared) {
        out->own_bytes += payload->len_bytes;
    }
    if (out->last != NULL) {
        out->last->next = chunk;
    } else {
        out->first = chunk;
    }
    out->last = chunk;
    return 0;
}

int sfab_stream_queue_copy(struct sfab_stream *stream, uint16_t type, const void *data, size_t len)
{
    struct sfab_payload *payload = sfab_payload_new(len);
    if (payload == NULL) {
        return -ENOMEM;
    }
    if (len > 0) {
        memcpy(payload->bytes, data, len);
    }
    int status = sfab_payload_seal(payload);
    if (status == 0) {
        status = sfab_stream_queue(stream, type, payload, false);
    }
    sfab_payload_drop(payload);
    return status;
}

bool sfab_stream_pending(const struct sfab_stream *stream)
{
    return stream->out.first != NULL;
}

/* Adds what is left of a part of a chunk, of which `skip` bytes (counted down) are out already. */
static void add_part(struct iovec *iov, int *count, void *bytes, size_t len, size_t *skip)
{
    if (*skip >= len) {
        *skip -= len;
        return;
    }
    iov[*count].iov_base = (uint8_t *)bytes + *skip;
    iov[*count].iov_len = len - *skip;
    *skip = 0;
    (*count)++;
}

static size_t chunk_bytes(const struct sfab_chunk *chunk)
{
    return sizeof chunk->header + chunk->payload->len_bytes + chunk->mac_bytes;
}

/* Takes `sent` bytes off the queue. */
static void retire(struct sfab_stream_out *out, size_t sent)
{
    while (sent > 0) {
        struct sfab_chunk *chunk = out->first;
        size_t left = chunk_bytes(chunk) - chunk->sent;
        if (sent < left) {
            chunk->sent += sent;
            return;
        }
        sent -= left;
        drop_first(out);
    }
}

int sfab_stream_flush(struct sfab_stream *stream)
{
    while (stream->out.first != NULL) {
        struct iovec iov[3 * CHUNKS_AT_ONCE];
        int parts = 0;
        struct sfab_chunk *chunk = stream->out.first;
        for (int i = 0; i < CHUNKS_AT_ONCE && chunk != NULL; i++, chunk = chunk->next) {
            size_t skip = chunk->sent;
            add_part(iov, &parts, chunk->header, sizeof chunk->header, &skip);
            add_part(iov, &parts, chunk->payload->bytes, chunk->payload->len_bytes, &skip);
            add_part(iov, &parts, chunk->mac, chunk->mac_bytes, &skip);
        }
        struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)parts};
        ssize_t n = sendmsg(stream->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return errno == EAGAIN ? 0 : -errno;
        }
        retire(&stream->out, (size_t)n);
    }
    return 0;
}
