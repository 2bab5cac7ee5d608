/* server_impl.h - what the files of the rendezvous server share.
 *
 *   server.c         start, stop, drain and the one loop
 *   server_conn.c    connections: accepting, limits, reading, writing, closing
 *   server_join.c    the handshake, and the job's start or its failure to start
 *   server_gather.c  exchanges
 *   server_route.c   messages, departures
 *   server_fail.c    deaths, accusations, heartbeats, aborts
 *   server_survey.c  surveys
 *   server_log.c     refusals, told once
 *
 * Everything but the few fields under `lock` belongs to the server's thread. Nothing here blocks. A
 * connection that has to go is only marked (sfab_conn_doom); the loop removes it at the end of its
 * round, so that no function's connection vanishes under it. */
#ifndef SFAB_FABRIC_BOOT_SERVER_IMPL_H
#define SFAB_FABRIC_BOOT_SERVER_IMPL_H

#include "fabric/boot/boot.h"
#include "fabric/boot/hearing.h"
#include "fabric/boot/stream.h"
#include "fabric/boot/survey.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define SFAB_OPEN_MAX        64            /* connections that have not proved the secret */
#define SFAB_OPEN_NS         5000000000ull /* how long one of those may last */
#define SFAB_OPEN_GRACE_NS   1000000000ull /* after this it makes way for a newcomer */
#define SFAB_CLOSING_NS      5000000000ull /* for a refused client to read why */
#define SFAB_CONGESTED_BYTES (4u << 20)    /* queued for one rank: its senders have to wait */
#define SFAB_REFUSALS_MAX    64            /* different ones that are told */
#define SFAB_DEAD_TAGS_MAX   256
#define SFAB_EXCHANGES_MAX   4096 /* under way at a time */

enum sfab_conn_stage {
    SFAB_CONN_HELLO,  /* nothing has been said yet */
    SFAB_CONN_PROOF,  /* challenged */
    SFAB_CONN_MEMBER, /* a rank of the job */
    SFAB_CONN_CLOSING /* refused after its proof: reads the reason and goes */
};

struct sfab_conn {
    struct sfab_stream stream;
    enum sfab_conn_stage stage;
    uint64_t born_ns;
    uint64_t deadline_ns; /* UINT64_MAX: none */
    uint32_t rank;        /* of a member */
    bool doomed;
    bool has_place;   /* takes one of the places of those that have not proved the secret */
    bool paused;      /* its next message goes to a congested rank, paused_on */
    bool shut;        /* our half is closed */
    uint64_t beat_ns; /* of a member: when the first beat that is not acknowledged was sent */
    bool beating;     /* there is one */
    uint32_t paused_on;
    struct sfab_hello hello;
    uint8_t proof[SFAB_AUTH_DIGEST_BYTES]; /* expected */
    uint8_t session[SFAB_AUTH_DIGEST_BYTES];
    char address[64]; /* without the port */
};

enum sfab_rank_state { SFAB_RANK_ABSENT, SFAB_RANK_IN, SFAB_RANK_LEFT, SFAB_RANK_DIED };

struct sfab_rank {
    enum sfab_rank_state state;
    struct sfab_conn *conn; /* NULL once closed */
    char host[SFAB_FRAME_HOST_CAP];
    char why[SFAB_BOOT_WHY_MAX]; /* its last words, or what was seen of its death */
};

/* by says that against cannot be reached. */
/* What other threads of the server's process have told it: under lock. */
struct sfab_told {
    struct sfab_told *next;
    uint32_t rank; /* that died; UINT32_MAX: an abort, with a code */
    int code;
    char text[SFAB_BOOT_WHY_MAX];
};

enum sfab_job_state { SFAB_JOB_JOINING, SFAB_JOB_RUNNING, SFAB_JOB_FAILED };

enum sfab_refusal {
    SFAB_REFUSED_GARBAGE,
    SFAB_REFUSED_SCAN,
    SFAB_REFUSED_SLOW,
    SFAB_REFUSED_CROWD,
    SFAB_REFUSED_SECRET,
    SFAB_REFUSED_VERSION,
    SFAB_REFUSED_SIZE,
    SFAB_REFUSED_RANK,
    SFAB_REFUSED_TAKEN,
    SFAB_REFUSED_FAILED,
    SFAB_REFUSED_FILES
};

struct sfab_refusal_told {
    enum sfab_refusal cause;
    char address[64];
};

struct sfab_exchange; /* server_gather.c */

struct sfab_dead_tag {
    struct sfab_verdict verdict;
};

struct sfab_boot_server {
    struct sfab_boot_server_config config; /* listen_host is not kept */
    int listen_fd, wake_fd;
    uint64_t start_ns, join_deadline_ns;
    pthread_t thread;
    _Atomic bool stop;

    enum sfab_job_state job;
    struct sfab_verdict job_verdict; /* of a failed one */
    char last_refusal[256];          /* helps to explain who is missing */
    uint32_t joined;
    struct sfab_rank *ranks;

    struct sfab_conn **conns;
    struct pollfd *pollfds; /* [0] wake, [1] listen, then one for each connection */
    size_t conn_count, conn_cap;
    size_t places_taken; /* of the SFAB_OPEN_MAX for those that have not proved the secret */
    uint64_t accept_after_ns;

    struct sfab_gone *gone; /* not yet told to anybody */
    size_t gone_count;

    struct sfab_surveys surveys;
    struct sfab_hearing hearing;
    uint64_t hearing_ends_ns; /* UINT64_MAX: none */
    uint64_t next_beat_ns;
    bool aborted;
    struct sfab_verdict abort; /* tag: by whom */

    struct sfab_exchange *exchanges;
    size_t exchange_count;
    struct sfab_dead_tag *dead_tags; /* a ring */
    size_t dead_tag_count, dead_tag_next;

    struct sfab_told *told_first, *told_last; /* under lock */

    struct sfab_refusal_told told[SFAB_REFUSALS_MAX];
    size_t told_count;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    _Atomic int64_t first_dead; /* -1: none */
    uint32_t busy;              /* under lock: ranks for which drain waits */
};

/* server_conn.c */
void sfab_conn_doom(struct sfab_conn *conn);
void sfab_conns_accept(struct sfab_boot_server *server, uint64_t now_ns);
/* Whether one more connection may be accepted: there is a place, or an old silent one would make
 * way. */
bool sfab_conns_room(const struct sfab_boot_server *server, uint64_t now_ns);
/* Reads and handles what has come. */
void sfab_conn_serve(struct sfab_boot_server *server, struct sfab_conn *conn);
/* Handles whole frames in the buffer: also after a pause. */
void sfab_conn_frames(struct sfab_boot_server *server, struct sfab_conn *conn);
void sfab_conns_expire(struct sfab_boot_server *server, uint64_t now_ns);
void sfab_conns_flush(struct sfab_boot_server *server);
/* Removes the doomed ones, and tells of ranks that died with them. True if there were any. */
bool sfab_conns_sweep(struct sfab_boot_server *server);
void sfab_conn_free(struct sfab_boot_server *server, struct sfab_conn *conn);
/* The connection is past its handshake. */
void sfab_conn_proved(struct sfab_boot_server *server, struct sfab_conn *conn);
/* Queues; a connection that cannot take it is doomed. */
void sfab_conn_queue(struct sfab_conn *conn, uint16_t type, struct sfab_payload *payload,
                     bool shared);
void sfab_conn_queue_copy(struct sfab_conn *conn, uint16_t type, const void *data, size_t len);
/* Says why and closes. */
void sfab_conn_refuse(struct sfab_conn *conn, int code, const char *text);

/* server_join.c */
void sfab_join_hello(struct sfab_boot_server *server, struct sfab_conn *conn,
                     const struct sfab_frame *frame);
void sfab_join_proof(struct sfab_boot_server *server, struct sfab_conn *conn,
                     const struct sfab_frame *frame);
void sfab_join_give_up(struct sfab_boot_server *server, struct sfab_conn *conn,
                       const struct sfab_frame *frame);
void sfab_join_died(struct sfab_boot_server *server, uint32_t rank);
void sfab_join_expire(struct sfab_boot_server *server, uint64_t now_ns);

/* server_gather.c */
void sfab_gather_add(struct sfab_boot_server *server, struct sfab_conn *conn,
                     const struct sfab_frame *frame);
void sfab_gather_cancel(struct sfab_boot_server *server, struct sfab_conn *conn,
                        const struct sfab_frame *frame);
/* Ends the exchanges that wait for rank, which is gone. */
void sfab_gather_gone(struct sfab_boot_server *server, uint32_t rank);
void sfab_gather_end(struct sfab_boot_server *server);

/* server_route.c */
/* False: the receiver is congested; hold the frame and pause. */
bool sfab_route_message(struct sfab_boot_server *server, struct sfab_conn *conn,
                        const struct sfab_frame *frame);
void sfab_route_leave(struct sfab_boot_server *server, struct sfab_conn *conn,
                      const struct sfab_frame *frame);
void sfab_route_gone(struct sfab_boot_server *server, uint32_t rank, enum sfab_boot_gone how,
                     uint64_t goodbye);
/* Tells everybody of the departures collected since the last call. */
void sfab_route_tell_gone(struct sfab_boot_server *server);
bool sfab_route_congested(const struct sfab_boot_server *server, uint32_t rank);
/* "rank 3 (hostB)" */
const char *sfab_route_name(const struct sfab_boot_server *server, uint32_t rank, char *buf,
                            size_t cap);

/* server_survey.c */
void sfab_survey_add(struct sfab_boot_server *server, struct sfab_conn *conn,
                     const struct sfab_frame *frame);
void sfab_survey_ask(struct sfab_boot_server *server, struct sfab_conn *conn,
                     const struct sfab_frame *frame);
void sfab_survey_gone(struct sfab_boot_server *server, uint32_t rank);

/* server_fail.c */
/* rank, which is in, has died; everybody hears of it, and why ("": only that). */
void sfab_fail_died(struct sfab_boot_server *server, uint32_t rank, const char *why);
void sfab_fail_accuse(struct sfab_boot_server *server, struct sfab_conn *conn,
                      const struct sfab_frame *frame);
void sfab_fail_dead(struct sfab_boot_server *server, struct sfab_conn *conn,
                    const struct sfab_frame *frame);
void sfab_fail_words(struct sfab_boot_server *server, struct sfab_conn *conn,
                     const struct sfab_frame *frame);
void sfab_fail_abort(struct sfab_boot_server *server, struct sfab_conn *conn,
                     const struct sfab_frame *frame);
/* The job has begun: an abort that came before is told. */
void sfab_fail_started(struct sfab_boot_server *server);
/* What other threads have said; hearings that are over; beats that are due. */
void sfab_fail_work(struct sfab_boot_server *server, uint64_t now_ns);
/* When sfab_fail_work is to be called next. */
uint64_t sfab_fail_deadline(const struct sfab_boot_server *server);
void sfab_fail_end(struct sfab_boot_server *server);

/* server_log.c */
void sfab_refused(struct sfab_boot_server *server, const struct sfab_conn *conn,
                  enum sfab_refusal cause, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
