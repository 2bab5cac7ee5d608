/* stream.h - frames over a socket, buffered both ways.
 *
 * The input side gathers bytes until a frame is whole and its MAC is right; the output side is a
 * queue of frames that goes out as the socket takes it. Neither ever blocks. The two sides share
 * nothing but the descriptor, so one thread may read while another, under the owner's lock, writes.
 */
#ifndef SFAB_FABRIC_BOOT_STREAM_H
#define SFAB_FABRIC_BOOT_STREAM_H

#include "fabric/boot/auth.h"
#include "fabric/boot/frame.h"

#include <stdbool.h>
#include <sys/types.h>

/* A payload on its way out. One may be queued on many streams (of one thread): it is counted. */
struct sfab_payload {
    uint32_t refs;
    uint32_t len_bytes;
    uint8_t digest[SFAB_AUTH_DIGEST_BYTES];
    uint8_t bytes[];
};

/* One reference, the caller's; NULL: no memory. Fill bytes, then seal. */
struct sfab_payload *sfab_payload_new(size_t len);
int sfab_payload_seal(struct sfab_payload *payload);
void sfab_payload_drop(struct sfab_payload *payload);

/* A frame that has come in; payload is good until the next call of next or fill. */
struct sfab_frame {
    uint16_t type;
    const uint8_t *payload;
    size_t len_bytes;
};

struct sfab_stream_in {
    uint8_t *bytes;
    size_t cap, start, end;
    size_t taken;                      /* bytes of the frame that was handed out last */
    bool held;                         /* ... which is to be handed out once more */
    uint32_t max_bytes;                /* of a payload */
    struct sfab_auth_channel *channel; /* NULL: frames carry no MAC yet */
};

struct sfab_chunk;

struct sfab_stream_out {
    struct sfab_chunk *first, *last;
    size_t own_bytes; /* queued payload that no other stream shares */
    struct sfab_auth_channel *channel;
};

struct sfab_stream {
    int fd;
    struct sfab_stream_in in;
    struct sfab_stream_out out;
};

void sfab_stream_init(struct sfab_stream *stream, int fd, uint32_t max_bytes);
/* Closes the socket and frees everything. */
void sfab_stream_end(struct sfab_stream *stream);

/* Reads once what the socket has. Bytes read, 0: the peer closed, -EAGAIN, or a negative errno. */
ssize_t sfab_stream_fill(struct sfab_stream *stream);

/* 1: *frame is the next one; 0: not whole yet; -EPROTO: not a frame; -EBADMSG: wrong MAC. */
int sfab_stream_next(struct sfab_stream *stream, struct sfab_frame *frame);
/* Has the frame handed out last handed out again by the next call. */
void sfab_stream_hold(struct sfab_stream *stream);

/* Queues a frame; takes a reference of its own. shared: others queue the same payload. */
int sfab_stream_queue(struct sfab_stream *stream, uint16_t type, struct sfab_payload *payload,
                      bool shared);
/* Queues a copy of data. */
int sfab_stream_queue_copy(struct sfab_stream *stream, uint16_t type, const void *data, size_t len);

/* Writes what the socket takes: 0 (look at sfab_stream_pending) or a negative errno. */
int sfab_stream_flush(struct sfab_stream *stream);
bool sfab_stream_pending(const struct sfab_stream *stream);

/* From here on frames of that direction carry MACs. */
int sfab_stream_secure_in(struct sfab_stream *stream, const uint8_t *session,
                          enum sfab_auth_direction direction);
int sfab_stream_secure_out(struct sfab_stream *stream, const uint8_t *session,
                           enum sfab_auth_direction direction);

#endif
