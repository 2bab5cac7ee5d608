/* server_join.c - the handshake, and the job's start or its failure to start.
 *
 * A connection that has not proved that it knows the secret learns nothing but that it was closed.
 * One that has is told in a sentence why it is refused. Once a job has failed to start it stays
 * failed: whoever comes later is told the same. */
#include "fabric/boot/net.h"
#include "fabric/boot/ranges.h"
#include "fabric/boot/server_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- the job as a whole ------------------------------------------------------------------ */

static void start_job(struct sfab_boot_server *server)
{
    struct sfab_payload *nothing = sfab_payload_new(0);
    bool ok = nothing != NULL && sfab_payload_seal(nothing) == 0;
    server->job = SFAB_JOB_RUNNING;
    for (size_t i = 0; i < server->conn_count; i++) {
        struct sfab_conn *conn = server->conns[i];
        if (conn->stage != SFAB_CONN_MEMBER) {
            continue;
        }
        if (ok) {
            sfab_conn_queue(conn, SFAB_FRAME_JOINED, nothing, true);
        } else {
            sfab_conn_doom(conn);
        }
    }
    sfab_payload_drop(nothing);
    sfab_fail_started(server);
}

static void fail_job(struct sfab_boot_server *server, int code, const char *text)
{
    server->job = SFAB_JOB_FAILED;
    server->job_verdict.code = code;
    snprintf(server->job_verdict.text, sizeof server->job_verdict.text, "%s", text);
    for (size_t i = 0; i < server->conn_count; i++) {
        struct sfab_conn *conn = server->conns[i];
        if (conn->stage == SFAB_CONN_MEMBER) {
            sfab_conn_refuse(conn, code, server->job_verdict.text);
        }
    }
}

static bool is_missing(const void *arg, uint32_t rank)
{
    const struct sfab_boot_server *server = arg;
    return server->ranks[rank].state == SFAB_RANK_ABSENT;
}

/* who: "the rendezvous" or a rank; it waited for span_ns. */
static void fail_for_missing(struct sfab_boot_server *server, const char *who, uint64_t span_ns)
{
    char missing[256];
    char span[32];
    char text[SFAB_FRAME_TEXT_MAX];
    uint32_t count =
        sfab_ranges_text(missing, sizeof missing, server->config.size, is_missing, server);
    bool refused = server->last_refusal[0] != '\0';
    snprintf(text, sizeof text,
             "the job cannot start: %s of %u %s not joined (%s waited %s)%s%s%s; see whether %s "
             "running and can reach the rendezvous, or raise SFAB_BOOT_TIMEOUT_MS",
             missing, server->config.size, count == 1 ? "has" : "have", who,
             sfab_span_text(span, sizeof span, span_ns), refused ? " (" : "", server->last_refusal,
             refused ? ")" : "", count == 1 ? "it is" : "they are");
    fail_job(server, -ETIMEDOUT, text);
}

void sfab_join_expire(struct sfab_boot_server *server, uint64_t now_ns)
{
    if (server->job == SFAB_JOB_JOINING && now_ns >= server->join_deadline_ns) {
        fail_for_missing(server, "the rendezvous", server->config.join_timeout_ns);
    }
}

void sfab_join_give_up(struct sfab_boot_server *server, struct sfab_conn *conn,
                       const struct sfab_frame *frame)
{
    uint64_t waited_ns;
    if (sfab_frame_get_u64(frame->payload, frame->len_bytes, &waited_ns) != 0) {
        sfab_conn_doom(conn);
        return;
    }
    if (server->job != SFAB_JOB_JOINING) {
        return; /* it has crossed with JOINED or REFUSED, which the client reads next */
    }
    char who[96];
    fail_for_missing(server, sfab_route_name(server, conn->rank, who, sizeof who), waited_ns);
}

void sfab_join_died(struct sfab_boot_server *server, uint32_t rank)
{
    char who[96];
    char text[256];
    snprintf(text, sizeof text,
             "%s died while the job was starting: see its own output for the reason",
             sfab_route_name(server, rank, who, sizeof who));
    fail_job(server, SFAB_ERR_PEER_DEAD, text);
}

/* ---- one connection ---------------------------------------------------------------------- */

void sfab_join_hello(struct sfab_boot_server *server, struct sfab_conn *conn,
                     const struct sfab_frame *frame)
{
    uint8_t nonce[SFAB_FRAME_NONCE_BYTES];
    struct sfab_auth_keys keys;
    if (sfab_frame_get_hello(frame->payload, frame->len_bytes, &conn->hello) != 0) {
        sfab_refused(server, conn, SFAB_REFUSED_GARBAGE, "it does not speak syncfab's protocol");
        sfab_conn_doom(conn);
        return;
    }
    if (sfab_auth_nonce(nonce) != 0 || sfab_auth_derive(&server->config.secret, frame->payload,
                                                        frame->len_bytes, nonce, &keys) != 0) {
        sfab_conn_doom(conn);
        return;
    }
    memcpy(conn->proof, keys.proof, sizeof conn->proof);
    memcpy(conn->session, keys.session, sizeof conn->session);
    sfab_auth_wipe(&keys, sizeof keys);
    sfab_conn_queue_copy(conn, SFAB_FRAME_CHALLENGE, nonce, sizeof nonce);
    conn->stage = SFAB_CONN_PROOF;
}

/* Turns away one that knows the secret: tells it, tells the log, and keeps the reason for those
 * that wait for it. */
static void refuse(struct sfab_boot_server *server, struct sfab_conn *conn, enum sfab_refusal cause,
                   int code, const char *text)
{
    if (cause != SFAB_REFUSED_FAILED) { /* told to all ranks before */
        sfab_refused(server, conn, cause, "%s", text);
    }
    if (cause == SFAB_REFUSED_VERSION || cause == SFAB_REFUSED_SIZE || cause == SFAB_REFUSED_RANK) {
        snprintf(server->last_refusal, sizeof server->last_refusal, "refused: %.240s", text);
    }
    sfab_conn_refuse(conn, code, text);
}

static bool version_fits(const struct sfab_hello *hello)
{
    return hello->wire_version == SFAB_WIRE_VERSION && strcmp(hello->version, sfab_version()) == 0;
}

static void refuse_taken(struct sfab_boot_server *server, struct sfab_conn *conn)
{
    static const char *const state_words[] = {[SFAB_RANK_ABSENT] = "absent",
                                              [SFAB_RANK_IN] = "running",
                                              [SFAB_RANK_LEFT] = "finished",
                                              [SFAB_RANK_DIED] = "dead"};
    const struct sfab_rank *rank = &server->ranks[conn->hello.rank];
    char text[512];
    snprintf(
        text, sizeof text,
        "rank %u is taken: a process on %s joined as rank %u before (it is %s now), and one on "
        "%s asks for it again; give every process its own SFAB_RANK",
        conn->hello.rank, rank->host, conn->hello.rank, state_words[rank->state], conn->hello.host);
    refuse(server, conn, SFAB_REFUSED_TAKEN, -EEXIST, text);
}

/* True when it may come in; otherwise it has been refused. */
static bool acceptable(struct sfab_boot_server *server, struct sfab_conn *conn)
{
    const struct sfab_hello *hello = &conn->hello;
    uint32_t size = server->config.size;
    char text[512];
    if (!version_fits(hello)) {
        snprintf(text, sizeof text,
                 "rank %u on %s runs syncfab %s (wire version %u), the rendezvous runs %s (wire "
                 "version %u); install the same version everywhere",
                 hello->rank, hello->host, hello->version, hello->wire_version, sfab_version(),
                 SFAB_WIRE_VERSION);
        refuse(server, conn, SFAB_REFUSED_VERSION, SFAB_ERR_VERSION, text);
    } else if (hello->size != size) {
        snprintf(
            text, sizeof text,
            "rank %u on %s was started for a job of %u ranks, the rendezvous for one of %u; give "
            "every process the same SFAB_SIZE",
            hello->rank, hello->host, hello->size, size);
        refuse(server, conn, SFAB_REFUSED_SIZE, SFAB_ERR_CONFIG, text);
    } else if (hello->rank >= size) {
        snprintf(text, sizeof text,
                 "rank %u on %s is not in a job of %u ranks, which are 0 to %u; set SFAB_RANK",
                 hello->rank, hello->host, size, size - 1);
        refuse(server, conn, SFAB_REFUSED_RANK, SFAB_ERR_CONFIG, text);
    } else if (server->job == SFAB_JOB_FAILED) {
        refuse(server, conn, SFAB_REFUSED_FAILED, server->job_verdict.code,
               server->job_verdict.text);
    } else if (server->ranks[hello->rank].state != SFAB_RANK_ABSENT) {
        refuse_taken(server, conn);
    } else {
        return true;
    }
    return false;
}

/* The largest payload that a member may send: a contribution that names all ranks. */
static uint32_t member_frame_max(uint32_t size)
{
    size_t max = sfab_frame_gather_bytes(size) + SFAB_BOOT_BLOB_MAX;
    return max > UINT32_MAX ? UINT32_MAX : (uint32_t)max;
}

static void admit(struct sfab_boot_server *server, struct sfab_conn *conn)
{
    struct sfab_rank *rank = &server->ranks[conn->hello.rank];
    conn->stage = SFAB_CONN_MEMBER;
    conn->rank = conn->hello.rank;
    conn->stream.in.max_bytes = member_frame_max(server->config.size);
    rank->state = SFAB_RANK_IN;
    rank->conn = conn;
    memcpy(rank->host, conn->hello.host, sizeof rank->host);
    sfab_conn_queue_copy(conn, SFAB_FRAME_WELCOME, NULL, 0);
    if (++server->joined == server->config.size) {
        start_job(server);
    }
}

void sfab_join_proof(struct sfab_boot_server *server, struct sfab_conn *conn,
                     const struct sfab_frame *frame)
{
    uint8_t proof[SFAB_AUTH_DIGEST_BYTES];
    if (sfab_frame_get_bytes32(frame->payload, frame->len_bytes, proof) != 0 ||
        !sfab_auth_equal(proof, conn->proof, sizeof proof)) {
        sfab_refused(server, conn, SFAB_REFUSED_SECRET, "it does not know the job's secret");
        sfab_conn_doom(conn);
        return;
    }
    bool secured = sfab_stream_secure_in(&conn->stream, conn->session, SFAB_AUTH_TO_SERVER) == 0 &&
                   sfab_stream_secure_out(&conn->stream, conn->session, SFAB_AUTH_TO_CLIENT) == 0;
    if (!secured) {
        sfab_conn_doom(conn);
        return;
    }
    sfab_conn_proved(server, conn);
    if (acceptable(server, conn)) {
        admit(server, conn);
    }
}
