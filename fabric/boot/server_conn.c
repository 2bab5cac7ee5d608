/* server_conn.c - the server's connections: accepting, limits, reading, writing, closing.
 *
 * Those that have not proved the secret are few (SFAB_OPEN_MAX) and short-lived. When all places
 * are taken, one that has been silent for SFAB_OPEN_GRACE_NS makes way; until then newcomers wait
 * in the kernel's backlog. So neither a flood of strangers nor a thousand ranks starting at once
 * keep a rank out for long: it retries if it was the one to go. */
#include "fabric/boot/net.h"
#include "fabric/boot/server_impl.h"
#include "fabric/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ACCEPT_PAUSE_NS 100000000ull /* when descriptors have run out */
#define READS_AT_ONCE   8            /* then the others have their turn */

void sfab_conn_doom(struct sfab_conn *conn)
{
    conn->doomed = true;
}

static bool is_open_to_all(const struct sfab_conn *conn)
{
    return conn->stage == SFAB_CONN_HELLO || conn->stage == SFAB_CONN_PROOF;
}

/* ---- accepting --------------------------------------------------------------------------- */

static int grow(struct sfab_boot_server *server)
{
    if (server->conn_count < server->conn_cap) {
        return 0;
    }
    size_t cap = server->conn_cap * 2 + 16;
    struct sfab_conn **conns = realloc(server->conns, cap * sizeof(*conns));
    if (conns == NULL) {
        return -ENOMEM;
    }
    server->conns = conns;
    struct pollfd *pollfds = realloc(server->pollfds, (cap + 2) * sizeof(*pollfds));
    if (pollfds == NULL) {
        return -ENOMEM;
    }
    server->pollfds = pollfds;
    server->conn_cap = cap;
    return 0;
}

static void add_conn(struct sfab_boot_server *server, int fd, const char *address, uint64_t now_ns)
{
    struct sfab_conn *conn = grow(server) == 0 ? calloc(1, sizeof *conn) : NULL;
    if (conn == NULL) {
        close(fd);
        return;
    }
    sfab_net_tune(fd);
    sfab_stream_init(&conn->stream, fd, SFAB_FRAME_HELLO_MAX);
    conn->stage = SFAB_CONN_HELLO;
    conn->born_ns = now_ns;
    uint64_t span_ns = server->config.join_timeout_ns < SFAB_OPEN_NS
                           ? server->config.join_timeout_ns
                           : SFAB_OPEN_NS;
    conn->deadline_ns = sfab_deadline_ns(now_ns, span_ns);
    memcpy(conn->address, address, sizeof conn->address);
    server->conns[server->conn_count++] = conn;
    conn->has_place = true;
    server->places_taken++;
}

/* The oldest connection that takes a place, if it is old enough to make way. */
static struct sfab_conn *who_makes_way(const struct sfab_boot_server *server, uint64_t now_ns)
{
    struct sfab_conn *oldest = NULL;
    for (size_t i = 0; i < server->conn_count; i++) {
        struct sfab_conn *conn = server->conns[i];
        if (conn->has_place && !conn->doomed &&
            (oldest == NULL || conn->born_ns < oldest->born_ns)) {
            oldest = conn;
        }
    }
    return oldest != NULL && now_ns - oldest->born_ns >= SFAB_OPEN_GRACE_NS ? oldest : NULL;
}

static void give_place_back(struct sfab_boot_server *server, struct sfab_conn *conn)
{
    if (conn->has_place) {
        conn->has_place = false;
        server->places_taken--;
    }
}

bool sfab_conns_room(const struct sfab_boot_server *server, uint64_t now_ns)
{
    if (now_ns < server->accept_after_ns) {
        return false;
    }
    return server->places_taken < SFAB_OPEN_MAX || who_makes_way(server, now_ns) != NULL;
}

static void accept_failed(struct sfab_boot_server *server, int errnum, uint64_t now_ns)
{
    if (errnum == EMFILE || errnum == ENFILE || errnum == ENOBUFS || errnum == ENOMEM) {
        struct sfab_conn nobody = {.address = "anywhere"};
        sfab_refused(server, &nobody, SFAB_REFUSED_FILES,
                     "%s (raise the limit of open files: ulimit -n)", sfab_errno_text(errnum));
        server->accept_after_ns = now_ns + ACCEPT_PAUSE_NS;
    }
}

void sfab_conns_accept(struct sfab_boot_server *server, uint64_t now_ns)
{
    while (sfab_conns_room(server, now_ns)) {
        struct sockaddr_storage from;
        socklen_t from_bytes = sizeof from;
        int fd = accept4(server->listen_fd, (struct sockaddr *)&from, &from_bytes,
                         SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) {
            continue;
        }
        if (fd < 0) {
            accept_failed(server, errno, now_ns);
            return;
        }
        if (server->places_taken >= SFAB_OPEN_MAX) {
            struct sfab_conn *old = who_makes_way(server, now_ns);
            sfab_refused(server, old, SFAB_REFUSED_CROWD,
                         "it was slow to say who it is while others waited for its place");
            give_place_back(server, old);
            sfab_conn_doom(old);
        }
        char address[64];
        sfab_net_name((struct sockaddr *)&from, from_bytes, 0, address, sizeof address);
        add_conn(server, fd, address, now_ns);
    }
}

void sfab_conn_proved(struct sfab_boot_server *server, struct sfab_conn *conn)
{
    give_place_back(server, conn);
    conn->deadline_ns = UINT64_MAX;
    sfab_auth_wipe(conn->proof, sizeof conn->proof);
    sfab_auth_wipe(conn->session, sizeof conn->session);
}

/* ---- reading ----------------------------------------------------------------------------- */

static void member_frame(struct sfab_boot_server *server, struct sfab_conn *conn,
                         const struct sfab_frame *frame)
{
    bool running = server->job == SFAB_JOB_RUNNING;
    bool in = server->ranks[conn->rank].state == SFAB_RANK_IN;
    if (frame->type == SFAB_FRAME_GIVE_UP) {
        sfab_join_give_up(server, conn, frame); /* may cross with JOINED */
    } else if (frame->type == SFAB_FRAME_GATHER && running && in) {
        sfab_gather_add(server, conn, frame);
    } else if (frame->type == SFAB_FRAME_CANCEL && running && in) {
        sfab_gather_cancel(server, conn, frame);
    } else if (frame->type == SFAB_FRAME_SEND && running) {
        if (!sfab_route_message(server, conn, frame)) {
            sfab_stream_hold(&conn->stream);
            conn->paused = true;
        }
    } else if (frame->type == SFAB_FRAME_LEAVE && running && in) {
        sfab_route_leave(server, conn, frame);
    } else if (frame->type == SFAB_FRAME_SURVEY && running && in) {
        sfab_survey_add(server, conn, frame);
    } else if (frame->type == SFAB_FRAME_SURVEY_ASK && running) {
        sfab_survey_ask(server, conn, frame);
    } else if (frame->type == SFAB_FRAME_ACCUSE && running) {
        sfab_fail_accuse(server, conn, frame);
    } else if (frame->type == SFAB_FRAME_DEAD && running) {
        sfab_fail_dead(server, conn, frame);
    } else if (frame->type == SFAB_FRAME_WORDS && running && in) {
        sfab_fail_words(server, conn, frame);
    } else if (frame->type == SFAB_FRAME_ABORT && running) {
        sfab_fail_abort(server, conn, frame);
    } else if (frame->type == SFAB_FRAME_BEAT) {
        return; /* its host has been asked for an acknowledgement, which the kernel gave */
    } else {
        sfab_log(SFAB_LOG_WARN, "rank %u sent an unexpected frame (type %u): its connection ends",
                 conn->rank, frame->type);
        sfab_conn_doom(conn);
    }
}

static void bad_bytes(struct sfab_boot_server *server, struct sfab_conn *conn)
{
    if (is_open_to_all(conn)) {
        sfab_refused(server, conn, SFAB_REFUSED_GARBAGE, "it does not speak syncfab's protocol");
    } else if (conn->stage == SFAB_CONN_MEMBER) {
        sfab_log(SFAB_LOG_WARN,
                 "rank %u sent a frame that was damaged or forged: its connection ends",
                 conn->rank);
    }
    sfab_conn_doom(conn);
}

void sfab_conn_frames(struct sfab_boot_server *server, struct sfab_conn *conn)
{
    while (!conn->doomed && !conn->paused && conn->stage != SFAB_CONN_CLOSING) {
        struct sfab_frame frame;
        int status = sfab_stream_next(&conn->stream, &frame);
        if (status == 0) {
            return;
        }
        if (status < 0) {
            bad_bytes(server, conn);
        } else if (conn->stage == SFAB_CONN_MEMBER) {
            member_frame(server, conn, &frame);
        } else if (conn->stage == SFAB_CONN_HELLO && frame.type == SFAB_FRAME_HELLO) {
            sfab_join_hello(server, conn, &frame);
        } else if (conn->stage == SFAB_CONN_PROOF && frame.type == SFAB_FRAME_PROOF) {
            sfab_join_proof(server, conn, &frame);
        } else {
            bad_bytes(server, conn);
        }
    }
}

/* The connection broke or the other side closed it. */
static void ended(struct sfab_boot_server *server, struct sfab_conn *conn)
{
    if (is_open_to_all(conn)) {
        sfab_refused(server, conn, SFAB_REFUSED_SCAN,
                     "it was closed before it said who it is (a port scan?)");
    }
    sfab_conn_doom(conn);
}

/* What a refused client still sends is not read as anything. */
static void discard(struct sfab_conn *conn)
{
    uint8_t waste[4096];
    ssize_t n = recv(conn->stream.fd, waste, sizeof waste, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        sfab_conn_doom(conn);
    }
}

void sfab_conn_serve(struct sfab_boot_server *server, struct sfab_conn *conn)
{
    for (int i = 0; i < READS_AT_ONCE && !conn->doomed && !conn->paused; i++) {
        if (conn->stage == SFAB_CONN_CLOSING) {
            discard(conn);
            return;
        }
        ssize_t n = sfab_stream_fill(&conn->stream);
        if (n == -EAGAIN) {
            return;
        }
        if (n == -EPROTO) {
            bad_bytes(server, conn);
        } else if (n <= 0) {
            ended(server, conn);
        } else {
            sfab_conn_frames(server, conn);
        }
    }
}

void sfab_conns_expire(struct sfab_boot_server *server, uint64_t now_ns)
{
    for (size_t i = 0; i < server->conn_count; i++) {
        struct sfab_conn *conn = server->conns[i];
        if (conn->doomed || now_ns < conn->deadline_ns) {
            continue;
        }
        if (is_open_to_all(conn)) {
            sfab_refused(server, conn, SFAB_REFUSED_SLOW, "it did not say who it is in time");
        }
        sfab_conn_doom(conn);
    }
}

/* ---- writing ----------------------------------------------------------------------------- */

void sfab_conn_queue(struct sfab_conn *conn, uint16_t type, struct sfab_payload *payload,
                     bool shared)
{
    if (!conn->doomed && sfab_stream_queue(&conn->stream, type, payload, shared) != 0) {
        sfab_conn_doom(conn);
    }
}

void sfab_conn_queue_copy(struct sfab_conn *conn, uint16_t type, const void *data, size_t len)
{
    if (!conn->doomed && sfab_stream_queue_copy(&conn->stream, type, data, len) != 0) {
        sfab_conn_doom(conn);
    }
}

void sfab_conn_refuse(struct sfab_conn *conn, int code, const char *text)
{
    struct sfab_verdict verdict = {.code = code};
    uint8_t payload[SFAB_FRAME_TEXT_MAX + 16];
    strncpy(verdict.text, text, SFAB_FRAME_TEXT_MAX);
    size_t len = sfab_frame_put_verdict(payload, sizeof payload, &verdict);
    sfab_conn_queue_copy(conn, SFAB_FRAME_REFUSED, payload, len);
    conn->stage = SFAB_CONN_CLOSING;
    conn->paused = false;
    conn->deadline_ns = sfab_deadline_ns(sfab_now_ns(), SFAB_CLOSING_NS);
}

void sfab_conns_flush(struct sfab_boot_server *server)
{
    for (size_t i = 0; i < server->conn_count; i++) {
        struct sfab_conn *conn = server->conns[i];
        if (conn->doomed) {
            continue;
        }
        if (sfab_stream_pending(&conn->stream) && sfab_stream_flush(&conn->stream) != 0 &&
            conn->stage != SFAB_CONN_MEMBER) {
            /* A member's last words may still be there to read: reading finds the end of it. */
            sfab_conn_doom(conn);
        }
        if (conn->stage == SFAB_CONN_CLOSING && !conn->shut &&
            !sfab_stream_pending(&conn->stream)) {
            /* Closing at once could destroy the sentence on its way; the client closes first. */
            shutdown(conn->stream.fd, SHUT_WR);
            conn->shut = true;
        }
    }
}

/* ---- closing ----------------------------------------------------------------------------- */

void sfab_conn_free(struct sfab_boot_server *server, struct sfab_conn *conn)
{
    give_place_back(server, conn);
    sfab_stream_end(&conn->stream);
    sfab_auth_wipe(conn, sizeof *conn);
    free(conn);
}

static void bury(struct sfab_boot_server *server, struct sfab_conn *conn)
{
    if (conn->stage == SFAB_CONN_MEMBER || conn->stage == SFAB_CONN_CLOSING) {
        struct sfab_rank *rank = &server->ranks[conn->rank];
        if (rank->conn == conn) {
            rank->conn = NULL;
            if (rank->state == SFAB_RANK_IN) {
                sfab_fail_died(server, conn->rank, "");
            }
        }
    }
    sfab_conn_free(server, conn);
}

bool sfab_conns_sweep(struct sfab_boot_server *server)
{
    bool any = false;
    for (size_t i = 0; i < server->conn_count;) {
        struct sfab_conn *conn = server->conns[i];
        if (!conn->doomed) {
            i++;
            continue;
        }
        any = true;
        server->conns[i] = server->conns[--server->conn_count];
        bury(server, conn);
    }
    return any;
}
