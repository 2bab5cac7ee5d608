/* server_survey.c - surveys on the wire: survey.c's bookkeeping between frames in and frames out. */
#include "fabric/boot/server_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct sfab_payload *table_of(const struct sfab_survey *s)
{
    size_t head = sfab_frame_gathered_bytes(s->count);
    size_t total = head;
    uint32_t *lens = calloc(s->count, sizeof *lens);
    if (lens == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < s->count; i++) {
        lens[i] = s->table[i].here ? s->table[i].len_bytes + 1 : 0;
        total += s->table[i].len_bytes;
    }
    struct sfab_payload *table = sfab_payload_new(total);
    if (table != NULL) {
        uint8_t *at = table->bytes;
        at += sfab_frame_put_gathered(at, head, s->tag, lens, s->count);
        for (uint32_t i = 0; i < s->count; i++) {
            if (s->table[i].len_bytes > 0) {
                memcpy(at, s->table[i].blob, s->table[i].len_bytes);
                at += s->table[i].len_bytes;
            }
        }
        if (sfab_payload_seal(table) != 0) {
            sfab_payload_drop(table);
            table = NULL;
        }
    }
    free(lens);
    return table;
}

static void tell(struct sfab_conn *conn, struct sfab_payload *table)
{
    if (conn == NULL || conn->stage != SFAB_CONN_MEMBER) {
        return;
    }
    if (table == NULL) {
        sfab_conn_doom(conn); /* better cut off than waiting for ever */
        return;
    }
    sfab_conn_queue(conn, SFAB_FRAME_SURVEYED, table, true);
}

static void tell_all(void *arg, const struct sfab_survey *s)
{
    struct sfab_boot_server *server = arg;
    struct sfab_payload *table = table_of(s);
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->table[i].here) {
            tell(server->ranks[sfab_survey_member(s, i)].conn, table);
        }
    }
    sfab_payload_drop(table);
}

void sfab_survey_gone(struct sfab_boot_server *server, uint32_t rank)
{
    sfab_surveys_gone(&server->surveys, rank, tell_all, server);
}

/* Members as numbers of this machine; NULL with count 0: all, or out of memory (*ok false). */
static uint32_t *members_of(const struct sfab_gather *gather, bool *ok)
{
    uint32_t *members = gather->count > 0 ? malloc(gather->count * sizeof *members) : NULL;
    *ok = gather->count == 0 || members != NULL;
    for (uint32_t i = 0; members != NULL && i < gather->count; i++) {
        members[i] = sfab_frame_u32_at(gather->members_be, i);
    }
    return members;
}

void sfab_survey_add(struct sfab_boot_server *server, struct sfab_conn *conn,
                     const struct sfab_frame *frame)
{
    struct sfab_gather gather;
    const struct sfab_survey *s = NULL;
    bool first = false;
    bool ok =
        sfab_frame_get_gather(frame->payload, frame->len_bytes, SFAB_BOOT_BLOB_MAX, &gather) == 0 &&
        gather.count <= server->config.size;
    if (!ok) {
        sfab_conn_doom(conn);
        return;
    }
    /* A rank is to hear who is gone before it sees that one missing in a table. */
    sfab_route_tell_gone(server);
    uint32_t *members = members_of(&gather, &ok);
    uint32_t count = gather.count > 0 ? gather.count : server->config.size;
    int status = ok ? sfab_surveys_bring(&server->surveys, gather.tag, conn->rank, members, count,
                                         gather.blob, gather.blob_bytes, &s, &first)
                    : -ENOMEM;
    free(members);
    if (status != 0) {
        sfab_conn_doom(
            conn); /* not the protocol, or no memory: either way this rank cannot go on */
    } else if (first) {
        tell_all(server, s);
    } else if (s->complete) {
        struct sfab_payload *table = table_of(s);
        tell(conn, table);
        sfab_payload_drop(table);
    }
}

void sfab_survey_ask(struct sfab_boot_server *server, struct sfab_conn *conn,
                     const struct sfab_frame *frame)
{
    struct sfab_verdict answer = {.code = -EINPROGRESS};
    uint8_t payload[SFAB_FRAME_TEXT_MAX + 16];
    if (sfab_frame_get_u64(frame->payload, frame->len_bytes, &answer.tag) != 0) {
        sfab_conn_doom(conn);
        return;
    }
    sfab_surveys_missing(&server->surveys, answer.tag, answer.text, sizeof answer.text);
    size_t len = sfab_frame_put_verdict(payload, sizeof payload, &answer);
    sfab_conn_queue_copy(conn, SFAB_FRAME_SURVEY_MISSING, payload, len);
}
