/* server_fail.c - who is dead, by which of the ways there are to find out, and aborts.
 *
 *   its connection ends                 server_conn.c finds that
 *   its host acknowledges nothing       a heartbeat (heart.h)
 *   its process was seen to end         by a rank of its node (pidfd), or by the launcher
 *   the others cannot reach it          accusations (hearing.h): of those that are
 *                                       accused the one that most speak against is given up, since a
 *                                       rank whose own link is down accuses all others
 *
 * Whatever is found first counts; the others then hear the same: sfab_route_gone. */
#include "fabric/boot/heart.h"
#include "fabric/boot/net.h"
#include "fabric/boot/server_impl.h"
#include "fabric/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BEAT_DEFAULT_NS 1000000000ull
#define BEAT_A_RANK_NS  250000ull /* of the interval: what beats may cost is bounded */

/* ---- deaths ------------------------------------------------------------------------------ */

void sfab_fail_died(struct sfab_boot_server *server, uint32_t rank, const char *why)
{
    struct sfab_rank *r = &server->ranks[rank];
    int64_t none = -1;
    if (r->state != SFAB_RANK_IN) {
        return;
    }
    r->state = SFAB_RANK_DIED;
    snprintf(r->why, sizeof r->why, "%s", why);
    /* Relaxed: the number is all there is to know. Before anybody is told. */
    atomic_compare_exchange_strong_explicit(&server->first_dead, &none, rank, memory_order_relaxed,
                                            memory_order_relaxed);
    if (server->job == SFAB_JOB_JOINING) {
        sfab_join_died(server, rank);
    } else if (server->job == SFAB_JOB_RUNNING) {
        sfab_route_gone(server, rank, SFAB_BOOT_DIED, 0);
    }
}

/* Somebody saw the process end. Its last words may still be there to read: a goodbye, perhaps. */
static void process_ended(struct sfab_boot_server *server, uint32_t rank, const char *why)
{
    struct sfab_conn *conn = server->ranks[rank].conn;
    if (conn != NULL && !conn->doomed) {
        sfab_conn_serve(server, conn);
    }
    sfab_fail_died(server, rank, why);
}

/* False: it is not one, and the connection ends. */
static bool get_word(struct sfab_boot_server *server, struct sfab_conn *conn,
                     const struct sfab_frame *frame, uint32_t *rank, char *text)
{
    struct sfab_message word;
    if (sfab_frame_get_message(frame->payload, frame->len_bytes, SFAB_BOOT_WHY_MAX, &word) != 0 ||
        word.rank >= server->config.size) {
        sfab_conn_doom(conn);
        return false;
    }
    sfab_frame_get_text(&word, text, SFAB_BOOT_WHY_MAX);
    *rank = word.rank;
    return true;
}

void sfab_fail_dead(struct sfab_boot_server *server, struct sfab_conn *conn,
                    const struct sfab_frame *frame)
{
    uint32_t rank;
    char why[SFAB_BOOT_WHY_MAX];
    if (get_word(server, conn, frame, &rank, why) && rank != conn->rank) {
        process_ended(server, rank, why);
    }
}

void sfab_fail_words(struct sfab_boot_server *server, struct sfab_conn *conn,
                     const struct sfab_frame *frame)
{
    uint32_t rank;
    char words[SFAB_BOOT_WHY_MAX];
    if (get_word(server, conn, frame, &rank, words) && rank == conn->rank) {
        snprintf(server->ranks[rank].why, sizeof server->ranks[rank].why, "%s", words);
    }
}

/* ---- accusations ------------------------------------------------------------------------- */

static bool is_in(const struct sfab_boot_server *server, uint32_t rank)
{
    return server->ranks[rank].state == SFAB_RANK_IN;
}

void sfab_fail_accuse(struct sfab_boot_server *server, struct sfab_conn *conn,
                      const struct sfab_frame *frame)
{
    struct sfab_accusation new = {.by = conn->rank};
    if (!get_word(server, conn, frame, &new.against, new.text) || !is_in(server, new.by)) {
        return;
    }
    sfab_hearing_add(&server->hearing, new.by, new.against, new.text);
    if (server->hearing_ends_ns == UINT64_MAX) {
        server->hearing_ends_ns = sfab_now_ns() + SFAB_HEARING_NS;
    }
}

static bool court_is_in(void *arg, uint32_t rank)
{
    return is_in(arg, rank);
}

static uint64_t court_silence_ns(void *arg, uint32_t rank)
{
    const struct sfab_boot_server *server = arg;
    const struct sfab_conn *conn = server->ranks[rank].conn;
    struct sfab_heart heart;
    if (conn == NULL || !sfab_heart_look(conn->stream.fd, &heart)) {
        return UINT64_MAX;
    }
    return heart.unacked > 0 && heart.last_ack_ns >= SFAB_HEARING_NS ? heart.last_ack_ns : 0;
}

static void end_hearing(struct sfab_boot_server *server)
{
    const struct sfab_hearing_court court = {
        .is_in = court_is_in, .silence_ns = court_silence_ns, .arg = server};
    char why[SFAB_HEARING_WHY_MAX];
    char who[96];
    uint32_t rank;
    if (sfab_hearing_judge(&server->hearing, &court, &rank, why, sizeof why)) {
        sfab_log(SFAB_LOG_WARN, "%s is given up: %s",
                 sfab_route_name(server, rank, who, sizeof who), why);
        sfab_fail_died(server, rank, why);
    }
    server->hearing_ends_ns = UINT64_MAX;
}

/* ---- heartbeats -------------------------------------------------------------------------- */

static uint64_t timeout_of(const struct sfab_boot_server *server)
{
    uint64_t ns = server->config.heartbeat_timeout_ns;
    return ns != 0 ? ns : BEAT_DEFAULT_NS;
}

static void beat(struct sfab_boot_server *server, struct sfab_conn *conn, uint64_t now_ns)
{
    struct sfab_heart heart;
    char span[32];
    char why[SFAB_BOOT_WHY_MAX];
    if (!sfab_heart_look(conn->stream.fd, &heart)) {
        return;
    }
    conn->beating = conn->beating && heart.unacked > 0;
    if (conn->beating && sfab_heart_silent(&heart, now_ns - conn->beat_ns, timeout_of(server))) {
        snprintf(why, sizeof why, "its host has acknowledged nothing for %s",
                 sfab_span_text(span, sizeof span, heart.last_ack_ns / 1000000 * 1000000));
        sfab_fail_died(server, conn->rank, why);
        return;
    }
    if (!sfab_stream_pending(&conn->stream)) {
        sfab_conn_queue_copy(conn, SFAB_FRAME_BEAT, NULL, 0);
        if (!conn->beating) {
            conn->beating = true;
            conn->beat_ns = now_ns;
        }
    }
}

static void beat_all(struct sfab_boot_server *server, uint64_t now_ns)
{
    uint64_t interval_ns = timeout_of(server) / 4;
    uint64_t least_ns = server->config.size * BEAT_A_RANK_NS;
    server->next_beat_ns = now_ns + (interval_ns > least_ns ? interval_ns : least_ns);
    for (size_t i = 0; i < server->conn_count; i++) {
        struct sfab_conn *conn = server->conns[i];
        if (conn->stage == SFAB_CONN_MEMBER && !conn->doomed && is_in(server, conn->rank)) {
            beat(server, conn, now_ns);
        }
    }
}

/* ---- aborts ------------------------------------------------------------------------------ */

static void tell_abort(struct sfab_boot_server *server)
{
    uint8_t payload[SFAB_FRAME_TEXT_MAX + 16];
    size_t len = sfab_frame_put_verdict(payload, sizeof payload, &server->abort);
    for (size_t i = 0; i < server->conn_count; i++) {
        if (server->conns[i]->stage == SFAB_CONN_MEMBER) {
            sfab_conn_queue_copy(server->conns[i], SFAB_FRAME_ABORTED, payload, len);
        }
    }
}

static void abort_job(struct sfab_boot_server *server, uint32_t by, int code, const char *text)
{
    if (server->aborted) {
        return;
    }
    server->aborted = true;
    server->abort = (struct sfab_verdict){.tag = by, .code = code};
    snprintf(server->abort.text, sizeof server->abort.text, "%.*s", SFAB_BOOT_WHY_MAX - 1, text);
    if (server->job == SFAB_JOB_RUNNING) {
        tell_abort(server);
    }
}

void sfab_fail_abort(struct sfab_boot_server *server, struct sfab_conn *conn,
                     const struct sfab_frame *frame)
{
    struct sfab_verdict verdict;
    if (sfab_frame_get_verdict(frame->payload, frame->len_bytes, &verdict) != 0) {
        sfab_conn_doom(conn);
        return;
    }
    abort_job(server, conn->rank, verdict.code, verdict.text);
}

void sfab_fail_started(struct sfab_boot_server *server)
{
    server->next_beat_ns = 0;
    if (server->aborted) {
        tell_abort(server);
    }
}

/* ---- from other threads of the process --------------------------------------------------- */

static void tell_thread(struct sfab_boot_server *server, uint32_t rank, int code, const char *text)
{
    struct sfab_told *told = calloc(1, sizeof *told);
    if (told == NULL) {
        return;
    }
    *told = (struct sfab_told){.rank = rank, .code = code};
    snprintf(told->text, sizeof told->text, "%s", text);
    pthread_mutex_lock(&server->lock);
    if (server->told_last != NULL) {
        server->told_last->next = told;
    } else {
        server->told_first = told;
    }
    server->told_last = told;
    pthread_mutex_unlock(&server->lock);
    uint64_t one = 1;
    ssize_t n = write(server->wake_fd, &one, sizeof one);
    (void)n; /* a full counter wakes as well */
}

void sfab_boot_server_abort(struct sfab_boot_server *server, int code, const char *text)
{
    tell_thread(server, UINT32_MAX, code, text);
}

void sfab_boot_server_dead(struct sfab_boot_server *server, uint32_t rank, const char *why)
{
    if (rank < server->config.size) {
        tell_thread(server, rank, 0, why);
    }
}

static struct sfab_told *take_told(struct sfab_boot_server *server)
{
    pthread_mutex_lock(&server->lock);
    struct sfab_told *first = server->told_first;
    server->told_first = NULL;
    server->told_last = NULL;
    pthread_mutex_unlock(&server->lock);
    return first;
}

static void hear_threads(struct sfab_boot_server *server)
{
    for (struct sfab_told *told = take_told(server), *next; told != NULL; told = next) {
        next = told->next;
        if (told->rank == UINT32_MAX) {
            abort_job(server, UINT32_MAX, told->code, told->text);
        } else {
            process_ended(server, told->rank, told->text);
        }
        free(told);
    }
}

/* ---- in the loop ------------------------------------------------------------------------- */

void sfab_fail_work(struct sfab_boot_server *server, uint64_t now_ns)
{
    hear_threads(server);
    if (now_ns >= server->hearing_ends_ns) {
        end_hearing(server);
    }
    if (server->job == SFAB_JOB_RUNNING && now_ns >= server->next_beat_ns) {
        beat_all(server, now_ns);
    }
}

uint64_t sfab_fail_deadline(const struct sfab_boot_server *server)
{
    uint64_t next = server->job == SFAB_JOB_RUNNING ? server->next_beat_ns : UINT64_MAX;
    return server->hearing_ends_ns < next ? server->hearing_ends_ns : next;
}

void sfab_fail_end(struct sfab_boot_server *server)
{
    for (struct sfab_told *told = server->told_first, *next; told != NULL; told = next) {
        next = told->next;
        free(told);
    }
    sfab_hearing_free(&server->hearing);
}
