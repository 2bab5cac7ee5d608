/* boot_harness.h - jobs whose ranks are threads of one process, and strangers who speak raw TCP.
 *
 * cmocka's assertions belong to the main thread: what ranks do on threads is recorded in their
 * seats and judged afterwards. */
#ifndef SFAB_TESTS_BOOT_HARNESS_H
#define SFAB_TESTS_BOOT_HARNESS_H

#include "fabric/boot/boot.h"
#include "fabric/boot/stream.h"

#include <pthread.h>
#include <stdbool.h>

#define MS 1000000ull
#define S  1000000000ull

#define SEATS_MAX    64
#define MESSAGES_MAX 65536

struct job {
    struct sfab_boot_server *server;
    uint16_t port;
    uint32_t size;
    struct sfab_boot_secret secret;
};

/* What one event said. */
struct told {
    uint32_t src;
    uint16_t channel;
    uint16_t len_bytes;
    uint32_t number; /* the first four bytes of the message */
};

struct seat {
    struct sfab_boot_config config;
    struct sfab_boot *boot;
    int status;
    struct sfab_err err;
    struct sfab_boot_blob *table; /* for exchanges */
    void *arg;                    /* for the test */

    pthread_mutex_t lock;
    struct told *messages; /* MESSAGES_MAX of them */
    uint32_t message_count;
    uint8_t gone[SEATS_MAX]; /* by rank: 1 left, 2 died */
    uint64_t goodbye[SEATS_MAX];
    uint32_t gone_count, lost_count;
    unsigned slow_us; /* message() takes so long */
    bool echo;        /* message() answers on channel + 1 */
};

struct sfab_boot_secret secret_of(const char *text);

/* A server on 127.0.0.1 for size ranks with the secret "open sesame". */
void job_start(struct job *job, uint32_t size, uint64_t join_timeout_ns);
void job_stop(struct job *job);

/* count seats with ranks 0, 1, ... of the job, not yet joined. */
struct seat *seats_new(const struct job *job, uint32_t count);
void seats_free(struct seat *seats, uint32_t count); /* closes those still open */

/* Calls act(seat) for every seat on a thread of its own, and waits for all. */
void on_all(struct seat *seats, uint32_t count, void (*act)(struct seat *));

void act_join(struct seat *seat);  /* status, err, boot */
void act_leave(struct seat *seat); /* with goodbye 1000 + rank, 10 s */
void act_close(struct seat *seat);

/* A job whose ranks have all joined; fails the test otherwise. */
struct seat *joined_job(struct job *job, uint32_t size);
/* All leave (must work), close, the server drains and stops. */
void finish_job(struct job *job, struct seat *seats);

uint32_t messages_of(struct seat *seat);
bool wait_messages(struct seat *seat, uint32_t count, uint64_t timeout_ns);
bool wait_gone(struct seat *seat, uint32_t count, uint64_t timeout_ns);
bool wait_lost(struct seat *seat, uint32_t count, uint64_t timeout_ns);

/* stderr into a file between the two; the text is to be freed. */
void capture_start(void);
char *capture_end(void);
/* Gives stderr back when a test has failed in between, and shows what was kept. */
int capture_teardown(void **state);
#define boot_test(f) cmocka_unit_test_teardown(f, capture_teardown)
unsigned count_of(const char *text, const char *part);

/* A TCP connection to 127.0.0.1. */
int stranger(uint16_t port);
/* Whether the other side closes within timeout_ns, and sends nothing before. */
bool is_closed_silently(int fd, uint64_t timeout_ns);
/* Goes through a handshake by hand, up to and including the proof. False: closed. */
bool hand_made_proof(int fd, const struct sfab_hello *hello, const struct sfab_boot_secret *secret,
                     struct sfab_stream *stream);
struct sfab_hello hello_of(uint32_t rank, uint32_t size);
/* The next frame, or false after 5 s or when closed. */
bool hand_made_frame(struct sfab_stream *stream, struct sfab_frame *frame);

#endif
