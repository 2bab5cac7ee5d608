/* server_gather.c - exchanges: every member brings a blob, each gets all of them.
 *
 * An exchange is known by its tag. It ends complete, and its tag is free again; or it fails (a
 * member gave up, died, left, or named other members), and the tag is dead: whoever still brings a
 * blob for it is told the same. The last SFAB_DEAD_TAGS_MAX dead tags are remembered. */
#include "fabric/boot/net.h"
#include "fabric/boot/ranges.h"
#include "fabric/boot/server_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOT_A_MEMBER UINT32_MAX

struct contribution {
    bool here;
    uint32_t len_bytes;
    uint8_t *blob;
};

struct sfab_exchange {
    struct sfab_exchange *next;
    uint64_t tag;
    uint32_t count;    /* members */
    uint32_t here;     /* contributions */
    uint32_t first;    /* the rank that began it */
    uint32_t *members; /* NULL: all ranks */
    uint32_t *place;   /* of a rank among the members, or NOT_A_MEMBER; NULL: all ranks */
    struct contribution *brought;
};

/* ---- one exchange ------------------------------------------------------------------------ */

static uint32_t place_of(const struct sfab_exchange *x, uint32_t rank)
{
    return x->place != NULL ? x->place[rank] : rank;
}

static uint32_t member_at(const struct sfab_exchange *x, uint32_t place)
{
    return x->members != NULL ? x->members[place] : place;
}

static void exchange_free(struct sfab_exchange *x)
{
    for (uint32_t i = 0; x->brought != NULL && i < x->count; i++) {
        free(x->brought[i].blob);
    }
    free(x->brought);
    free(x->members);
    free(x->place);
    free(x);
}

/* -EPROTO when a member is out of range or named twice. */
static int take_members(struct sfab_exchange *x, const struct sfab_gather *gather, uint32_t size)
{
    x->members = calloc(gather->count, sizeof(*x->members));
    x->place = malloc(size * sizeof(*x->place));
    if (x->members == NULL || x->place == NULL) {
        return -ENOMEM;
    }
    for (uint32_t r = 0; r < size; r++) {
        x->place[r] = NOT_A_MEMBER;
    }
    for (uint32_t i = 0; i < gather->count; i++) {
        uint32_t rank = sfab_frame_u32_at(gather->members_be, i);
        if (rank >= size || x->place[rank] != NOT_A_MEMBER) {
            return -EPROTO;
        }
        x->members[i] = rank;
        x->place[rank] = i;
    }
    return 0;
}

static int exchange_new(struct sfab_boot_server *server, const struct sfab_gather *gather,
                        uint32_t first, struct sfab_exchange **out)
{
    if (server->exchange_count == SFAB_EXCHANGES_MAX) {
        return -ENOBUFS;
    }
    struct sfab_exchange *x = calloc(1, sizeof *x);
    if (x == NULL) {
        return -ENOMEM;
    }
    x->tag = gather->tag;
    x->first = first;
    x->count = gather->count != 0 ? gather->count : server->config.size;
    int status = gather->count != 0 ? take_members(x, gather, server->config.size) : 0;
    if (status == 0) {
        x->brought = calloc(x->count, sizeof(*x->brought));
        status = x->brought == NULL ? -ENOMEM : 0;
    }
    if (status != 0) {
        exchange_free(x);
        return status;
    }
    x->next = server->exchanges;
    server->exchanges = x;
    server->exchange_count++;
    *out = x;
    return 0;
}

static struct sfab_exchange *find(struct sfab_boot_server *server, uint64_t tag)
{
    struct sfab_exchange *x = server->exchanges;
    while (x != NULL && x->tag != tag) {
        x = x->next;
    }
    return x;
}

static void unlink_free(struct sfab_boot_server *server, struct sfab_exchange *x)
{
    struct sfab_exchange **at = &server->exchanges;
    while (*at != x) {
        at = &(*at)->next;
    }
    *at = x->next;
    server->exchange_count--;
    exchange_free(x);
}

static bool same_members(const struct sfab_exchange *x, const struct sfab_gather *gather)
{
    if (gather->count == 0 || x->members == NULL) {
        return gather->count == 0 && x->members == NULL;
    }
    if (gather->count != x->count) {
        return false;
    }
    for (uint32_t i = 0; i < x->count; i++) {
        if (sfab_frame_u32_at(gather->members_be, i) != x->members[i]) {
            return false;
        }
    }
    return true;
}

/* ---- failing ----------------------------------------------------------------------------- */

static void tell_failed(struct sfab_conn *conn, const struct sfab_verdict *verdict)
{
    uint8_t payload[SFAB_FRAME_TEXT_MAX + 16];
    size_t len = sfab_frame_put_verdict(payload, sizeof payload, verdict);
    sfab_conn_queue_copy(conn, SFAB_FRAME_GATHER_FAILED, payload, len);
}

static void remember_dead(struct sfab_boot_server *server, const struct sfab_verdict *verdict)
{
    if (server->dead_tags == NULL) {
        server->dead_tags = calloc(SFAB_DEAD_TAGS_MAX, sizeof(*server->dead_tags));
    }
    if (server->dead_tags == NULL) {
        return; /* a later contribution to it then times out */
    }
    server->dead_tags[server->dead_tag_next].verdict = *verdict;
    server->dead_tag_next = (server->dead_tag_next + 1) % SFAB_DEAD_TAGS_MAX;
    if (server->dead_tag_count < SFAB_DEAD_TAGS_MAX) {
        server->dead_tag_count++;
    }
}

static const struct sfab_verdict *find_dead(const struct sfab_boot_server *server, uint64_t tag)
{
    for (size_t i = 0; i < server->dead_tag_count; i++) {
        if (server->dead_tags[i].verdict.tag == tag) {
            return &server->dead_tags[i].verdict;
        }
    }
    return NULL;
}

/* Tells everybody who has contributed, and forgets all but the tag. */
static void fail(struct sfab_boot_server *server, struct sfab_exchange *x, int code,
                 const char *text)
{
    struct sfab_verdict verdict = {.tag = x->tag, .code = code};
    snprintf(verdict.text, sizeof verdict.text, "%s", text);
    for (uint32_t i = 0; i < x->count; i++) {
        struct sfab_conn *conn = server->ranks[member_at(x, i)].conn;
        if (x->brought[i].here && conn != NULL) {
            tell_failed(conn, &verdict);
        }
    }
    remember_dead(server, &verdict);
    unlink_free(server, x);
}

static void fail_for_gone(struct sfab_boot_server *server, struct sfab_exchange *x, uint32_t rank)
{
    char who[96];
    char text[256];
    snprintf(text, sizeof text, "%s %s before the exchange was complete (%u of %u had come)",
             sfab_route_name(server, rank, who, sizeof who),
             server->ranks[rank].state == SFAB_RANK_LEFT ? "left the job" : "died", x->here,
             x->count);
    fail(server, x, SFAB_ERR_PEER_DEAD, text);
}

/* ---- completing -------------------------------------------------------------------------- */

static struct sfab_payload *table_of(const struct sfab_exchange *x)
{
    size_t head = sfab_frame_gathered_bytes(x->count);
    size_t total = head;
    uint32_t *lens = calloc(x->count, sizeof *lens);
    if (lens == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < x->count; i++) {
        lens[i] = x->brought[i].len_bytes;
        total += lens[i];
    }
    struct sfab_payload *table = sfab_payload_new(total);
    if (table != NULL) {
        uint8_t *at = table->bytes;
        at += sfab_frame_put_gathered(at, head, x->tag, lens, x->count);
        for (uint32_t i = 0; i < x->count; i++) {
            if (lens[i] > 0) {
                memcpy(at, x->brought[i].blob, lens[i]);
                at += lens[i];
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

static void complete(struct sfab_boot_server *server, struct sfab_exchange *x)
{
    struct sfab_payload *table = table_of(x);
    if (table == NULL) {
        fail(server, x, -ENOMEM, "the rendezvous has no memory left for the exchange");
        return;
    }
    for (uint32_t i = 0; i < x->count; i++) {
        struct sfab_conn *conn = server->ranks[member_at(x, i)].conn;
        if (conn != NULL) {
            sfab_conn_queue(conn, SFAB_FRAME_GATHERED, table, true);
        }
    }
    sfab_payload_drop(table);
    unlink_free(server, x);
}

static uint32_t first_gone(const struct sfab_boot_server *server, const struct sfab_exchange *x)
{
    for (uint32_t i = 0; i < x->count; i++) {
        uint32_t rank = member_at(x, i);
        if (server->ranks[rank].state != SFAB_RANK_IN) {
            return rank;
        }
    }
    return NOT_A_MEMBER;
}

/* ---- frames ------------------------------------------------------------------------------ */

static void fail_for_mismatch(struct sfab_boot_server *server, struct sfab_conn *conn,
                              struct sfab_exchange *x)
{
    char who[96];
    char other[96];
    char text[320];
    snprintf(text, sizeof text,
             "%s and %s take part in one exchange (tag %llu) with different lists of members",
             sfab_route_name(server, conn->rank, who, sizeof who),
             sfab_route_name(server, x->first, other, sizeof other), (unsigned long long)x->tag);
    struct sfab_verdict verdict = {.tag = x->tag, .code = SFAB_ERR_MISMATCH};
    snprintf(verdict.text, sizeof verdict.text, "%s", text);
    uint32_t place = place_of(x, conn->rank);
    if (place == NOT_A_MEMBER || !x->brought[place].here) {
        tell_failed(conn, &verdict);
    }
    fail(server, x, SFAB_ERR_MISMATCH, text);
}

/* The exchange that the frame belongs to, new or under way; NULL when that was refused. */
static struct sfab_exchange *exchange_for(struct sfab_boot_server *server, struct sfab_conn *conn,
                                          const struct sfab_gather *gather)
{
    struct sfab_exchange *x = find(server, gather->tag);
    if (x != NULL) {
        if (same_members(x, gather) && place_of(x, conn->rank) != NOT_A_MEMBER) {
            return x;
        }
        fail_for_mismatch(server, conn, x);
        return NULL;
    }
    const struct sfab_verdict *dead = find_dead(server, gather->tag);
    if (dead != NULL) {
        tell_failed(conn, dead);
        return NULL;
    }
    int status = exchange_new(server, gather, conn->rank, &x);
    if (status == -EPROTO || (status == 0 && place_of(x, conn->rank) == NOT_A_MEMBER)) {
        if (status == 0) {
            unlink_free(server, x);
        }
        sfab_conn_doom(conn);
        return NULL;
    }
    if (status != 0) {
        struct sfab_verdict verdict = {.tag = gather->tag, .code = status};
        snprintf(verdict.text, sizeof verdict.text, "the rendezvous cannot begin an exchange: %s",
                 sfab_errno_text(-status));
        tell_failed(conn, &verdict);
        return NULL;
    }
    return x;
}

static bool bring(struct contribution *c, const struct sfab_gather *gather)
{
    if (c->here) {
        return false;
    }
    if (gather->blob_bytes > 0) {
        c->blob = malloc(gather->blob_bytes);
        if (c->blob == NULL) {
            return false;
        }
        memcpy(c->blob, gather->blob, gather->blob_bytes);
    }
    c->len_bytes = (uint32_t)gather->blob_bytes;
    c->here = true;
    return true;
}

void sfab_gather_add(struct sfab_boot_server *server, struct sfab_conn *conn,
                     const struct sfab_frame *frame)
{
    struct sfab_gather gather;
    if (sfab_frame_get_gather(frame->payload, frame->len_bytes, SFAB_BOOT_BLOB_MAX, &gather) != 0) {
        sfab_conn_doom(conn);
        return;
    }
    /* A rank is to hear that a member is gone before it hears that an exchange failed of it. */
    sfab_route_tell_gone(server);
    struct sfab_exchange *x = exchange_for(server, conn, &gather);
    if (x == NULL) {
        return;
    }
    if (!bring(&x->brought[place_of(x, conn->rank)], &gather)) {
        sfab_conn_doom(conn);
        return;
    }
    x->here++;
    uint32_t gone = first_gone(server, x);
    if (gone != NOT_A_MEMBER) {
        fail_for_gone(server, x, gone);
    } else if (x->here == x->count) {
        complete(server, x);
    }
}

static bool is_missing(const void *arg, uint32_t rank)
{
    const struct sfab_exchange *x = arg;
    uint32_t place = place_of(x, rank);
    return place != NOT_A_MEMBER && !x->brought[place].here;
}

void sfab_gather_cancel(struct sfab_boot_server *server, struct sfab_conn *conn,
                        const struct sfab_frame *frame)
{
    struct sfab_cancel cancel;
    if (sfab_frame_get_cancel(frame->payload, frame->len_bytes, &cancel) != 0) {
        sfab_conn_doom(conn);
        return;
    }
    struct sfab_exchange *x = find(server, cancel.tag);
    uint32_t place = x != NULL ? place_of(x, conn->rank) : NOT_A_MEMBER;
    if (place == NOT_A_MEMBER || !x->brought[place].here) {
        return; /* it has crossed with the exchange's end, which the client reads next */
    }
    char missing[256];
    char who[96];
    char span[32];
    char text[SFAB_FRAME_TEXT_MAX];
    uint32_t count = sfab_ranges_text(missing, sizeof missing, server->config.size, is_missing, x);
    uint64_t waited_ms = cancel.waited_ms < UINT64_MAX / 1000000 ? cancel.waited_ms : 0;
    snprintf(text, sizeof text,
             "%s waited %s for an exchange of %u ranks and gave up: %s %s not come",
             sfab_route_name(server, conn->rank, who, sizeof who),
             sfab_span_text(span, sizeof span, waited_ms * 1000000), x->count, missing,
             count == 1 ? "has" : "have");
    fail(server, x, -ETIMEDOUT, text);
}

void sfab_gather_gone(struct sfab_boot_server *server, uint32_t rank)
{
    struct sfab_exchange *x = server->exchanges;
    while (x != NULL) {
        struct sfab_exchange *next = x->next;
        if (place_of(x, rank) != NOT_A_MEMBER) {
            fail_for_gone(server, x, rank);
        }
        x = next;
    }
}

void sfab_gather_end(struct sfab_boot_server *server)
{
    while (server->exchanges != NULL) {
        unlink_free(server, server->exchanges);
    }
    free(server->dead_tags);
    server->dead_tags = NULL;
}
