/* client_impl.h - what the files of a rank's end share.
 *
 *   client.c         the handle: sending, leaving, closing
 *   client_join.c    connecting, the handshake, waiting for the others
 *   client_gather.c  exchanges
 *   client_fail.c    surveys, accusations, aborts, watched processes
 *   client_loop.c    the control thread
 *
 * The control thread alone reads the socket. Everybody may write to it, under `lock`; what the
 * socket does not take at once is left to the control thread. Callbacks run on the control thread
 * without the lock. */
#ifndef SFAB_FABRIC_BOOT_CLIENT_IMPL_H
#define SFAB_FABRIC_BOOT_CLIENT_IMPL_H

#include "fabric/boot/boot.h"
#include "fabric/boot/stream.h"

#include <pthread.h>
#include <stdbool.h>

/* Unsent bytes above which a sender waits; the control thread, which must not, is refused above the
 * second. */
#define SFAB_BACKLOG_BYTES   (256u << 10)
#define SFAB_BACKLOG_MAX     (64u << 20)
#define SFAB_VERDICT_WAIT_NS 2000000000ull /* for the server to say who was missing */

/* The exchange under way; one at a time, as its caller is one thread. */
struct sfab_pending_gather {
    bool active, done;
    uint64_t tag;
    uint32_t count;
    struct sfab_verdict verdict; /* code 0: table is set */
    struct sfab_boot_blob *table;
};

/* A process that is a rank. */
struct sfab_watch {
    int fd; /* pidfd; -1: has ended */
    uint32_t rank;
};

struct sfab_boot {
    uint32_t rank, size;
    char where[300]; /* "host:port" of the rendezvous */
    char name[96];   /* "rank 3 hostA", for the log */
    struct sfab_boot_events events;
    struct sfab_stream stream; /* in: the control thread's; out: under lock */
    int wake_fd;
    pthread_t thread;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* CLOCK_MONOTONIC */
    bool stop, lost, left;
    char lost_text[512];
    uint8_t *gone; /* by rank: 1 + enum sfab_boot_gone */
    uint32_t gone_count;
    struct sfab_pending_gather gather;
    struct sfab_watch *watches; /* under lock; never shorter */
    size_t watch_count;

    /* the control thread's */
    char **whys; /* by rank: what its departure's news will say; NULL: nothing */
    uint64_t heartbeat_timeout_ns;
    uint64_t heard_ns; /* when the server last sent anything */
    uint64_t beat_ns;  /* when the first beat since then was sent; 0: none */
    uint64_t next_tick_ns;
};

/* client.c */
/* Waits for `changed`, at most until deadline_ns: 0 or -ETIMEDOUT. lock is held. */
int sfab_boot_wait(struct sfab_boot *boot, uint64_t deadline_ns);
/* Queues and writes what the socket takes; wakes the control thread for the rest. lock is held. */
int sfab_boot_put(struct sfab_boot *boot, uint16_t type, const void *data, size_t len);
void sfab_boot_wake(struct sfab_boot *boot);

/* client_join.c */
/* Fills boot->stream with a joined connection. */
int sfab_boot_enter(struct sfab_boot *boot, const struct sfab_boot_config *config,
                    struct sfab_err *err);

/* client_gather.c */
/* Handles GATHERED and GATHER_FAILED; 0, or -EPROTO / -ENOMEM, which end the connection. */
int sfab_boot_gather_frame(struct sfab_boot *boot, const struct sfab_frame *frame);

/* As of an exchange or a survey. */
int sfab_boot_check_members(const struct sfab_boot *boot, const uint32_t *members, uint32_t count,
                            struct sfab_err *err);
/* Sends a GATHER or a SURVEY. lock is held. */
int sfab_boot_contribute(struct sfab_boot *boot, uint16_t type, uint64_t tag,
                         const uint32_t *members, uint32_t count, const void *blob, size_t len);

/* client_fail.c, for the control thread */
struct pollfd;
/* Handles SURVEYED, SURVEY_MISSING, WHY and ABORTED; 0, -EPROTO or -ENOMEM. */
int sfab_boot_fail_frame(struct sfab_boot *boot, const struct sfab_frame *frame);
/* Puts the watched processes behind the first `head` of *fds (grown if need be): how many. */
size_t sfab_boot_watched(struct sfab_boot *boot, struct pollfd **fds, size_t *cap, size_t head);
/* The process of that watch has ended. */
void sfab_boot_ended(struct sfab_boot *boot, size_t watch);
void sfab_boot_unwatch(struct sfab_boot *boot);

/* client_loop.c */
void *sfab_boot_loop(void *arg);

#endif
