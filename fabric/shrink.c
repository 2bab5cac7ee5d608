/* shrink.c - a new group of those members of an old one that are alive.
 *
 * One survey does it: each member brings the key of new memory, large enough whatever the new group's
 * size and the member's place in it turn out to be; whom the table has is the new group. The survey's
 * promise, the same table everywhere, is what makes it the same group everywhere, however many die
 * meanwhile; who dies after it was complete is the new group's own loss. */
#include "fabric/shrink.h"
#include "fabric/ctx.h"
#include "fabric/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct sfab_shrink {
    uint64_t tag;
    struct sfab_mem *mem; /* this member's block in the new group */
    bool complete;        /* under ctx->groups_lock, as is the table */
    uint8_t *table;       /* by member of the old group: SFAB_GROUP_KEY_MAX bytes, length 0: gone */
};

static uint8_t *entry(uint8_t *keys, uint32_t member)
{
    return keys + (size_t)member * SFAB_GROUP_KEY_MAX;
}

static void fill(uint8_t *to, const uint8_t *data, size_t len)
{
    if (data == NULL || len > SFAB_GROUP_KEY_MAX - 2)
        len = 0;
    to[0] = (uint8_t)len;
    to[1] = (uint8_t)(len >> 8);
    if (len > 0)
        memcpy(to + 2, data, len);
}

void sfab_shrink_surveyed(struct sfab_group *group, uint64_t tag,
                          const struct sfab_boot_blob *table)
{
    struct sfab_shrink *s = group->shrink;

    if (s == NULL || s->tag != tag || s->complete)
        return;
    for (uint32_t i = 0; i < group->size; i++)
        fill(entry(s->table, i), table[i].data, table[i].len_bytes);
    s->complete = true;
}

void sfab_shrink_forget(struct sfab_group *group)
{
    if (group->shrink == NULL)
        return;
    free(group->shrink->table);
    free(group->shrink); /* its memory goes with the context: peers may know of it */
    group->shrink = NULL;
}

/* Enough for every place in every group of at most so many. */
static size_t room(const struct sfab_group *group)
{
    size_t most = 0;

    for (uint32_t size = 1; size <= group->size; size++) {
        size_t bytes = group->class->block_bytes(group->ctx, size, 0);

        if (bytes > most)
            most = bytes;
    }
    return most;
}

static int out_of_memory(struct sfab_ctx *ctx)
{
    return sfab_ctx_fail(ctx, -ENOMEM, "rank %u (%s): out of memory for a group", ctx->rank,
                         ctx->host);
}

static int begin(struct sfab_group *group)
{
    struct sfab_ctx *ctx = group->ctx;
    struct sfab_shrink *s = calloc(1, sizeof *s);
    uint8_t key[SFAB_GROUP_KEY_MAX - 2];
    size_t len = 0;

    if (s == NULL || (s->table = calloc(group->size, SFAB_GROUP_KEY_MAX)) == NULL) {
        free(s);
        return out_of_memory(ctx);
    }
    s->tag = sfab_group_tag(group, SFAB_SURVEY_SHRINK, group->shrinks);
    int rc = sfab_mem_alloc(ctx, room(group), SFAB_REMOTE_READ | SFAB_REMOTE_WRITE, &s->mem);
    if (rc == 0)
        rc = sfab_mem_key(s->mem, key, sizeof key, &len);
    if (rc != 0) {
        sfab_mem_free(s->mem);
        free(s->table);
        free(s);
        return rc;
    }
    pthread_mutex_lock(&ctx->groups_lock);
    group->shrink = s;
    if (ctx->boot == NULL) { /* alone in the job */
        fill(s->table, key, len);
        s->complete = true;
    }
    pthread_mutex_unlock(&ctx->groups_lock);
    if (ctx->boot != NULL)
        rc = ctx->rt->survey(ctx->boot, s->tag, group->members, group->size, key, len);
    if (rc != 0) { /* the rendezvous is lost, or this rank was given up: the next look tells */
        sfab_shrink_forget(group);
        return sfab_ctx_ended(ctx, "sfab_group_shrink") != 0
                   ? ctx->err.code
                   : sfab_ctx_fail(ctx, rc,
                                   "rank %u (%s): sfab_group_shrink cannot ask the others: %s",
                                   ctx->rank, ctx->host, sfab_errno_text(-rc));
    }
    return 0;
}

static bool complete(struct sfab_group *group)
{
    pthread_mutex_lock(&group->ctx->groups_lock);
    bool is = group->shrink->complete;
    pthread_mutex_unlock(&group->ctx->groups_lock);
    return is;
}

static int wait_complete(struct sfab_group *group, int64_t timeout_ns)
{
    struct sfab_ctx *ctx = group->ctx;
    uint64_t since_ns = 0;
    char missing[SFAB_MISSING_TEXT_BYTES];

    while (!complete(group)) {
        int rc = sfab_ctx_ended(ctx, "sfab_group_shrink");

        if (rc == 0)
            rc = sfab_ctx_pause(ctx, &since_ns, timeout_ns);
        if (rc == -ETIMEDOUT)
            return sfab_ctx_fail(
                ctx, rc, "rank %u (%s): sfab_group_shrink timed out after %.3f s: %s", ctx->rank,
                ctx->host, (double)timeout_ns / 1e9,
                sfab_ctx_missing(ctx, group->shrink->tag, missing, sizeof missing));
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* The group of those in the table; its state is the class's to attach. */
static struct sfab_group *gather(struct sfab_group *old, struct sfab_shrink *s)
{
    struct sfab_group *group = calloc(1, sizeof *group);
    uint32_t *members = calloc(old->size, sizeof *members);

    if (group == NULL || members == NULL ||
        (group->keys = malloc((size_t)old->size * SFAB_GROUP_KEY_MAX)) == NULL ||
        (group->reach = calloc(old->size, sizeof *group->reach)) == NULL) {
        if (group != NULL)
            free(group->keys);
        free(members);
        free(group);
        return NULL;
    }
    group->magic = SFAB_GROUP_MAGIC;
    group->ctx = old->ctx;
    group->class = old->class;
    group->id = s->tag;
    group->members = members;
    for (uint32_t i = 0; i < old->size; i++) {
        const uint8_t *from = entry(s->table, i);

        if (from[0] == 0 && from[1] == 0)
            continue;
        if (i == old->me)
            group->me = group->size;
        memcpy(entry(group->keys, group->size), from, SFAB_GROUP_KEY_MAX);
        members[group->size++] = sfab_group_member(old, i);
    }
    group->block = s->mem->seg.addr;
    return group;
}

static int make(struct sfab_group *old, sfab_group **out)
{
    struct sfab_ctx *ctx = old->ctx;
    struct sfab_shrink *s = old->shrink;
    const uint8_t *mine = entry(s->table, old->me);

    if (mine[0] == 0 && mine[1] == 0)
        return sfab_ctx_fail(ctx, SFAB_ERR_PEER_DEAD,
                             "rank %u (%s): sfab_group_shrink: the others have given this rank up",
                             ctx->rank, ctx->host);
    struct sfab_group *group = gather(old, s);
    if (group == NULL)
        return out_of_memory(ctx);
    group->block_bytes = group->class->block_bytes(ctx, group->size, group->me);
    int rc = group->class->attach(group, &ctx->err);
    if (rc != 0) {
        sfab_group_dismantle(group);
        return rc;
    }
    sfab_group_enlist(group);
    ctx->counters.sync_bytes_now += group->block_bytes;
    *out = group;
    return 0;
}

int sfab_group_shrink(sfab_group *group, int64_t timeout_ns, sfab_group **out)
{
    if (!sfab_group_ok(group) || out == NULL)
        return -EINVAL;
    int rc = sfab_ctx_ended(group->ctx, "sfab_group_shrink");
    if (rc == 0 && group->shrink == NULL)
        rc = begin(group);
    if (rc == 0)
        rc = wait_complete(group, timeout_ns);
    if (rc != 0)
        return rc;
    rc = make(group, out);
    pthread_mutex_lock(&group->ctx->groups_lock);
    sfab_shrink_forget(group);
    group->shrinks++;
    pthread_mutex_unlock(&group->ctx->groups_lock);
    return rc;
}
