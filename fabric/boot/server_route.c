/* server_route.c - messages from rank to rank, and the news of departures.
 *
 * Departures are collected over one round of the loop and told in one frame to each: when thousands
 * of ranks leave together that saves nearly all of the frames. */
#include "fabric/boot/net.h"
#include "fabric/boot/server_impl.h"

#include <stdio.h>
#include <string.h>

const char *sfab_route_name(const struct sfab_boot_server *server, uint32_t rank, char *buf,
                            size_t cap)
{
    const char *host = server->ranks[rank].host;
    if (host[0] != '\0') {
        snprintf(buf, cap, "rank %u (%s)", rank, host);
    } else {
        snprintf(buf, cap, "rank %u", rank);
    }
    return buf;
}

/* ---- messages ---------------------------------------------------------------------------- */

bool sfab_route_congested(const struct sfab_boot_server *server, uint32_t rank)
{
    const struct sfab_conn *conn = server->ranks[rank].conn;
    return conn != NULL && !conn->doomed && conn->stream.out.own_bytes > SFAB_CONGESTED_BYTES;
}

bool sfab_route_message(struct sfab_boot_server *server, struct sfab_conn *conn,
                        const struct sfab_frame *frame)
{
    struct sfab_message message;
    if (sfab_frame_get_message(frame->payload, frame->len_bytes, SFAB_BOOT_MESSAGE_MAX, &message) !=
            0 ||
        message.rank >= server->config.size) {
        sfab_conn_doom(conn);
        return true;
    }
    struct sfab_rank *to = &server->ranks[message.rank];
    if (to->state == SFAB_RANK_DIED || to->conn == NULL) {
        return true; /* nobody there any more; the sender hears of that too */
    }
    if (sfab_route_congested(server, message.rank)) {
        conn->paused_on = message.rank;
        return false;
    }
    uint8_t out[SFAB_FRAME_MESSAGE_HEAD_BYTES + SFAB_BOOT_MESSAGE_MAX];
    size_t head = sfab_frame_put_message_head(out, sizeof out, conn->rank, message.channel);
    memcpy(out + head, message.data, message.len_bytes);
    sfab_conn_queue_copy(to->conn, SFAB_FRAME_MESSAGE, out, head + message.len_bytes);
    return true;
}

/* ---- departures -------------------------------------------------------------------------- */

void sfab_route_gone(struct sfab_boot_server *server, uint32_t rank, enum sfab_boot_gone how,
                     uint64_t goodbye)
{
    /* A rank goes once, so there is room for it. */
    server->gone[server->gone_count++] =
        (struct sfab_gone){.rank = rank, .how = (uint32_t)how, .goodbye = goodbye};
}

void sfab_route_leave(struct sfab_boot_server *server, struct sfab_conn *conn,
                      const struct sfab_frame *frame)
{
    uint64_t goodbye;
    if (sfab_frame_get_u64(frame->payload, frame->len_bytes, &goodbye) != 0) {
        sfab_conn_doom(conn);
        return;
    }
    server->ranks[conn->rank].state = SFAB_RANK_LEFT;
    sfab_route_gone(server, conn->rank, SFAB_BOOT_LEFT, goodbye);
}

/* What was seen of a death, ahead of its news. */
static void tell_why(struct sfab_boot_server *server, uint32_t rank)
{
    const char *why = server->ranks[rank].why;
    size_t len = strlen(why);
    uint8_t out[SFAB_FRAME_MESSAGE_HEAD_BYTES + SFAB_BOOT_WHY_MAX];
    size_t head = sfab_frame_put_message_head(out, sizeof out, rank, 0);
    memcpy(out + head, why, len);
    for (size_t i = 0; len > 0 && i < server->conn_count; i++) {
        if (server->conns[i]->stage == SFAB_CONN_MEMBER) {
            sfab_conn_queue_copy(server->conns[i], SFAB_FRAME_WHY, out, head + len);
        }
    }
}

/* Whom the job has given up may still read that, and nothing else. */
static void part_with(struct sfab_boot_server *server, uint32_t rank)
{
    struct sfab_conn *conn = server->ranks[rank].conn;
    if (conn != NULL && !conn->doomed && server->ranks[rank].state == SFAB_RANK_DIED) {
        conn->stage = SFAB_CONN_CLOSING;
        conn->paused = false;
        conn->deadline_ns = sfab_deadline_ns(sfab_now_ns(), SFAB_CLOSING_NS);
    }
}

void sfab_route_tell_gone(struct sfab_boot_server *server)
{
    if (server->gone_count == 0) {
        return;
    }
    for (size_t i = 0; i < server->gone_count; i++) {
        tell_why(server, server->gone[i].rank);
    }
    struct sfab_payload *news = sfab_payload_new(server->gone_count * SFAB_FRAME_GONE_BYTES);
    bool ok = news != NULL;
    for (size_t i = 0; ok && i < server->gone_count; i++) {
        sfab_frame_put_gone(news->bytes + i * SFAB_FRAME_GONE_BYTES, &server->gone[i]);
    }
    ok = ok && sfab_payload_seal(news) == 0;
    for (size_t i = 0; i < server->conn_count; i++) {
        struct sfab_conn *conn = server->conns[i];
        if (conn->stage != SFAB_CONN_MEMBER) {
            continue;
        }
        if (ok) {
            sfab_conn_queue(conn, SFAB_FRAME_GONE, news, true);
        } else {
            sfab_conn_doom(conn); /* better cut off than left without the news */
        }
    }
    sfab_payload_drop(news);
    size_t count = server->gone_count;
    server->gone_count = 0;
    for (size_t i = 0; i < count; i++) {
        sfab_gather_gone(server, server->gone[i].rank);
        sfab_survey_gone(server, server->gone[i].rank);
        part_with(server, server->gone[i].rank);
    }
}
