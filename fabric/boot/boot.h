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
    /* A rank's host that acknowledges nothing for so long is gone, and its ranks with it. Not so a rank
     * whose process only stands still: its host answers for it. 0: 1 s. */
    uint64_t heartbeat_timeout_ns;
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

/* The same as sfab_boot_abort, by the one who serves. Any thread. */
void sfab_boot_server_abort(struct sfab_boot_server *server, int code, const char *text);

/* Tells that a rank's process has ended, and how ("was killed by signal 9"), when the launcher that
 * serves has seen it. Any thread. */
void sfab_boot_server_dead(struct sfab_boot_server *server, uint32_t rank, const char *why);

/* Ends the thread and closes everything. NULL is allowed. */
void sfab_boot_server_stop(struct sfab_boot_server *server);

/* ---- a rank's end ------------------------------------------------------------------------ */

enum sfab_boot_gone {
    SFAB_BOOT_LEFT, /* said goodbye */
    SFAB_BOOT_DIED  /* its connection broke without that, its process was seen to end, its host is
                       silent, or the others' accusations were upheld */
};

/* One rank's contribution to an exchange or a survey. */
struct sfab_boot_blob {
    const uint8_t *data; /* NULL in a survey: this member is gone and brought nothing */
    size_t len_bytes;
};

#define SFAB_BOOT_WHY_MAX 200 /* bytes of a reason or an accusation, with its end */

/* All are called on the control thread, never at the same time; they must not block for long and
 * must not call sfab_boot_allgather or sfab_boot_leave. sfab_boot_send is fine. */
struct sfab_boot_events {
    void (*message)(void *arg, uint32_t src, uint16_t channel, const uint8_t *data, size_t len);
    /* goodbye: what the leaver said in sfab_boot_leave (0 when it died). why: its last words, or what was
     * seen of a death ("" where that was only its connection's end). rank may be this one: the others have
     * given it up, it is no longer of the job. */
    void (*gone)(void *arg, uint32_t rank, enum sfab_boot_gone how, uint64_t goodbye,
                 const char *why);
    /* The survey `tag` is complete: table[i] is what its i-th member brought. Every gone() that the
     * table depends on came before. The table is the caller's, for the call only. */
    void (*surveyed)(void *arg, uint64_t tag, const struct sfab_boot_blob *table, uint32_t count);
    /* The answer to sfab_boot_survey_ask: a sentence of who has not come. */
    void (*survey_missing)(void *arg, uint64_t tag, const char *text);
    /* Some rank (or the launcher: by is UINT32_MAX) has called sfab_boot_abort; the first one counts,
     * and comes once to every rank, its own included. */
    void (*aborted)(void *arg, uint32_t by, int code, const char *text);
    /* From time to time: returns in how many ns again. */
    uint64_t (*tick)(void *arg);
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
    uint64_t heartbeat_timeout_ns; /* the rendezvous' host, silent for so long, is lost. 0: 1 s */
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
int sfab_boot_allgather(struct sfab_boot *boot, uint64_t tag, const uint32_t *members,
                        uint32_t count, const void *blob, size_t len, int64_t timeout_ns,
                        struct sfab_boot_blob **table, struct sfab_err *err);

/* Hands a message to dst's message(). Any thread. Blocks only while the socket is full. Delivered
 * once, in order per sender, unless dst is gone; dst may be this rank. From an event it never
 * blocks. Errors: -EINVAL, SFAB_ERR_PEER_DEAD (dst is known to be gone), -ECONNRESET (the
 * rendezvous is lost), -ENOMEM, -ENOBUFS (from an event, with 64 MiB unsent). */
int sfab_boot_send(struct sfab_boot *boot, uint32_t dst, uint16_t channel, const void *data,
                   size_t len);

/* A survey: an exchange that deaths do not stop. Each of `count` members (members as in allgather)
 * contributes a blob; it is complete when every member has contributed or is gone, and then comes to
 * surveyed() of each one that is in it: the same table everywhere, in which a member is absent only if
 * it is gone. So all that hear it agree on who is. A member that never contributes holds it up for
 * ever: that is what survey_ask is for. A tag is used once in the life of a job. Never blocks beyond
 * what sfab_boot_send does. Any thread. Errors as sfab_boot_send; -EINVAL; -ENOTCONN. */
int sfab_boot_survey(struct sfab_boot *boot, uint64_t tag, const uint32_t *members, uint32_t count,
                     const void *blob, size_t len);

/* Asks who the survey `tag` waits for: survey_missing() brings the answer. Any thread. */
int sfab_boot_survey_ask(struct sfab_boot *boot, uint64_t tag);

/* Says that `rank` cannot be reached and how that was seen ("" is fine). The server collects what the
 * others say for a moment and gives up the one that most speak against (of a pair that accuse each
 * other: the one whose control connection is silent, else the first to be accused). rank may be the
 * caller itself, which is believed. Who is given up dies for all, itself included: gone(). Any
 * thread. */
int sfab_boot_accuse(struct sfab_boot *boot, uint32_t rank, const char *text);

/* Ends the job's waits everywhere: aborted() on every rank. code negative. Any thread. */
int sfab_boot_abort(struct sfab_boot *boot, int code, const char *text);

/* From now on the control thread watches that process, which is `rank` and shares this one's process
 * numbers, and tells the server when it ends, whatever became of its connection (a forked child may
 * hold it open). 0; -EOPNOTSUPP where pidfd_open(2) is missing; -ESRCH: no such process. Any thread. */
int sfab_boot_watch(struct sfab_boot *boot, uint32_t rank, uint32_t pid);

/* What the others' gone() is to say as `why` when this rank leaves (printable; cut after SFAB_BOOT_WHY_MAX - 1
 * bytes). Errors as sfab_boot_send. */
int sfab_boot_last_words(struct sfab_boot *boot, const char *text);

/* Says goodbye (the others' gone() hears of it, with the value), then waits until all others have
 * left or died, at most timeout_ns: -ETIMEDOUT, *err naming those still in (may be called again).
 * -ECONNRESET: the rendezvous is lost. Events go on being delivered meanwhile. */
int sfab_boot_leave(struct sfab_boot *boot, uint64_t goodbye, int64_t timeout_ns,
                    struct sfab_err *err);

/* Ends the control thread and the connection; without sfab_boot_leave before, the others see a
 * death. NULL is allowed. No event is delivered after it returns. */
void sfab_boot_close(struct sfab_boot *boot);

#endif
