/* boot.h - how ranks find each other, and the control channel they keep.
 *
 * Every rank holds one TCP connection to the job's rendezvous server, which runs in the launcher
 * (`sfab run`) or, without one, in rank 0's process. Over it ranks exchange small blobs
 * (allgather), send each other control messages (connection wire-up), and learn at once when a rank
 * is gone. Joining is authenticated both ways with HMAC-SHA-256 over the job secret (challenge and
 * response, RFC 2104), and each frame after it carries a MAC with a session key and a sequence
 * number, so nothing can be injected or replayed. Nothing is encrypted.
 *
 * A cold path throughout. */
#ifndef SFAB_FABRIC_BOOT_H
#define SFAB_FABRIC_BOOT_H

#include "fabric/err.h"

#include <stddef.h>
#include <stdint.h>

struct sfab_boot;
struct sfab_boot_server;

#define SFAB_BOOT_BLOB_MAX    4096 /* one rank's contribution to an allgather */
#define SFAB_BOOT_MESSAGE_MAX 1024 /* one control message */
#define SFAB_BOOT_SECRET_MAX  256

struct sfab_boot_secret {
    size_t len_bytes;
    uint8_t bytes[SFAB_BOOT_SECRET_MAX];
};

/* ---- the server -------------------------------------------------------------------------- */

struct sfab_boot_server_config {
    const char *listen_host; /* address to bind: "127.0.0.1", "0.0.0.0", "::", a name */
    uint16_t port;           /* 0: any free one */
    uint32_t size;           /* ranks to expect */
    struct sfab_boot_secret secret;
    /* From the start on: when not all ranks have joined by then, those that have are told which are
     * missing, and the job cannot start any more. */
    uint64_t join_timeout_ns;
};

/* Binds, listens and serves in a thread of its own; *port is where. Refused connections (wrong
 * secret, garbage, a port scan, a rank that is taken) are logged once a cause and address, never
 * disturb the job, and cannot hold a slot: an unauthenticated connection has 5 s (or the join
 * timeout if that is less) and 64 such at most are open at a time, of which one that has been
 * silent for a second makes way for a newcomer. Takes one descriptor a rank: raises the soft limit
 * of open files where it is too low. Errors: -EADDRINUSE, -EINVAL (address, size 0), SFAB_ERR_AUTH
 * (no secret), -EMFILE (hard limit of open files), other errno; sentence in *err. */
int sfab_boot_server_start(const struct sfab_boot_server_config *config,
                           struct sfab_boot_server **out, uint16_t *port, struct sfab_err *err);

/* Blocks until every rank that joined has left or died and what they are still to hear has been
 * sent (0 at once when none has joined), or timeout_ns is over (-ETIMEDOUT). */
int sfab_boot_server_drain(struct sfab_boot_server *server, int64_t timeout_ns);

/* The first rank whose connection broke without a goodbye; -1: none. When several ranks end in one
 * moment, this one is the cause and the others have only heard of it. Any thread. */
int64_t sfab_boot_server_first_dead(struct sfab_boot_server *server);

/* Ends the thread and closes everything. NULL is allowed. */
void sfab_boot_server_stop(struct sfab_boot_server *server);

/* ---- a rank's end ------------------------------------------------------------------------ */

enum sfab_boot_gone {
    SFAB_BOOT_LEFT, /* said goodbye */
    SFAB_BOOT_DIED  /* its connection broke without that */
};

/* All are called on the control thread, never at the same time; they must not block for long and
 * must not call sfab_boot_allgather or sfab_boot_leave. sfab_boot_send is fine. */
struct sfab_boot_events {
    void (*message)(void *arg, uint32_t src, uint16_t channel, const uint8_t *data, size_t len);
    /* goodbye: what the leaver said in sfab_boot_leave (0 when it died). */
    void (*gone)(void *arg, uint32_t rank, enum sfab_boot_gone how, uint64_t goodbye);
    /* The rendezvous itself is lost: no more exchanges; text says what was seen. Called once. */
    void (*lost)(void *arg, const char *text);
    void *arg;
};

struct sfab_boot_config {
    uint32_t rank, size;
    const char *host; /* of the rendezvous */
    uint16_t port;
    const char *own_host; /* this rank's host in the others' sentences; NULL: gethostname() */
    struct sfab_boot_secret secret;
    uint64_t join_timeout_ns; /* also how long connecting is retried while nobody listens yet */
};

/* Connects (retrying while refused, until the timeout), authenticates, and waits until all ranks
 * have joined. Starts the control thread (all signals blocked), which calls events from then on;
 * *out is set before the first event. Blocks. events may be NULL, and so may each of its functions.
 * Errors, sentence in *err: -ETIMEDOUT (naming the missing ranks, or that nobody answers at
 * host:port), SFAB_ERR_AUTH (either side's proof is wrong), SFAB_ERR_VERSION, -EEXIST (the rank is
 * taken), SFAB_ERR_CONFIG (sizes differ: both are named; rank not below size; a host that cannot be
 * resolved), SFAB_ERR_PEER_DEAD (a rank died while the job was starting), -EPROTO (something else
 * listens there), -ECONNRESET (the rendezvous ended). Once the job has failed to start, all ranks
 * are told the same, also those that come later. */
int sfab_boot_join(const struct sfab_boot_config *config, const struct sfab_boot_events *events,
                   struct sfab_boot **out, struct sfab_err *err);

/* Every one of `count` ranks (all that will call it with this tag) contributes a blob; each gets
 * all of them: table[i] for members[i], in one allocation that the caller frees with free(*table).
 * members: their ranks in the same order everywhere (NULL: all ranks). A tag may be used again once
 * an exchange with it is complete. Owner thread, one at a time (-EBUSY).
 * -ETIMEDOUT: the missing are named, and the tag is dead (the others in the exchange are told too);
 * SFAB_ERR_PEER_DEAD: a member died or left before it was complete; SFAB_ERR_MISMATCH: members
 * named different lists; -ECONNRESET: the rendezvous is lost; -EINVAL; -ENOTCONN (after
 * sfab_boot_leave). */
struct sfab_boot_blob {
    const uint8_t *data;
    size_t len_bytes;
};
int sfab_boot_allgather(struct sfab_boot *boot, uint64_t tag, const uint32_t *members,
                        uint32_t count, const void *blob, size_t len, int64_t timeout_ns,
                        struct sfab_boot_blob **table, struct sfab_err *err);

/* Hands a message to dst's message(). Any thread. Blocks only while the socket is full. Delivered
 * once, in order per sender, unless dst is gone; dst may be this rank. From an event it never
 * blocks. Errors: -EINVAL, SFAB_ERR_PEER_DEAD (dst is known to be gone), -ECONNRESET (the
 * rendezvous is lost), -ENOMEM, -ENOBUFS (from an event, with 64 MiB unsent). */
int sfab_boot_send(struct sfab_boot *boot, uint32_t dst, uint16_t channel, const void *data,
                   size_t len);

/* Says goodbye (the others' gone() hears of it, with the value), then waits until all others have
 * left or died, at most timeout_ns: -ETIMEDOUT, *err naming those still in (may be called again).
 * -ECONNRESET: the rendezvous is lost. Events go on being delivered meanwhile. */
int sfab_boot_leave(struct sfab_boot *boot, uint64_t goodbye, int64_t timeout_ns,
                    struct sfab_err *err);

/* Ends the control thread and the connection; without sfab_boot_leave before, the others see a
 * death. NULL is allowed. No event is delivered after it returns. */
void sfab_boot_close(struct sfab_boot *boot);

#endif
