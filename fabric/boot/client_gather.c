/* client_gather.c - exchanges, seen from a rank. */
#include "fabric/boot/client_impl.h"
#include "fabric/boot/net.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the control thread's half ----------------------------------------------------------- */

/* The table and the blobs it points to, in one allocation; NULL: no memory. */
static struct sfab_boot_blob *table_of(const struct sfab_gathered *gathered)
{
    size_t head = (size_t)gathered->count * sizeof(struct sfab_boot_blob);
    struct sfab_boot_blob *table = malloc(head + gathered->blobs_bytes);
    if (table == NULL) {
        return NULL;
    }
    uint8_t *at = (uint8_t *)table + head;
    if (gathered->blobs_bytes > 0) {
        memcpy(at, gathered->blobs, gathered->blobs_bytes);
    }
    for (uint32_t i = 0; i < gathered->count; i++) {
        table[i].data = at;
        table[i].len_bytes = sfab_frame_u32_at(gathered->lens_be, i);
        at += table[i].len_bytes;
    }
    return table;
}

static int end_with_table(struct sfab_boot *boot, const struct sfab_frame *frame)
{
    struct sfab_gathered gathered;
    if (sfab_frame_get_gathered(frame->payload, frame->len_bytes, SFAB_BOOT_BLOB_MAX, &gathered) !=
        0) {
        return -EPROTO;
    }
    pthread_mutex_lock(&boot->lock);
    struct sfab_pending_gather *g = &boot->gather;
    int status = 0;
    if (g->active && !g->done && g->tag == gathered.tag) {
        g->table = gathered.count == g->count ? table_of(&gathered) : NULL;
        status = gathered.count != g->count ? -EPROTO : g->table == NULL ? -ENOMEM : 0;
        g->done = status == 0;
        pthread_cond_broadcast(&boot->changed);
    }
    pthread_mutex_unlock(&boot->lock);
    return status;
}

static int end_with_verdict(struct sfab_boot *boot, const struct sfab_frame *frame)
{
    struct sfab_verdict verdict;
    if (sfab_frame_get_verdict(frame->payload, frame->len_bytes, &verdict) != 0) {
        return -EPROTO;
    }
    pthread_mutex_lock(&boot->lock);
    struct sfab_pending_gather *g = &boot->gather;
    if (g->active && !g->done && g->tag == verdict.tag) {
        g->verdict = verdict;
        g->done = true;
        pthread_cond_broadcast(&boot->changed);
    }
    pthread_mutex_unlock(&boot->lock);
    return 0;
}

int sfab_boot_gather_frame(struct sfab_boot *boot, const struct sfab_frame *frame)
{
    return frame->type == SFAB_FRAME_GATHERED ? end_with_table(boot, frame)
                                              : end_with_verdict(boot, frame);
}

/* ---- the owner's half -------------------------------------------------------------------- */

int sfab_boot_check_members(const struct sfab_boot *boot, const uint32_t *members, uint32_t count,
                            struct sfab_err *err)
{
    if (members == NULL) {
        return count == boot->size
                   ? 0
                   : sfab_fail(err, -EINVAL, "an exchange of all ranks has %u members, not %u",
                               boot->size, count);
    }
    uint8_t *named = calloc(boot->size, 1);
    if (named == NULL) {
        return sfab_fail(err, -ENOMEM, "no memory for an exchange of %u ranks", count);
    }
    int status =
        count == 0 || count > boot->size
            ? sfab_fail(err, -EINVAL, "an exchange cannot have %u of %u ranks", count, boot->size)
            : 0;
    for (uint32_t i = 0; status == 0 && i < count; i++) {
        if (members[i] >= boot->size || named[members[i]] != 0) {
            status = sfab_fail(err, -EINVAL,
                               "rank %u is not in the job, or named twice, as member "
                               "%u of an exchange",
                               members[i], i);
        } else {
            named[members[i]] = 1;
        }
    }
    if (status == 0 && named[boot->rank] == 0) {
        status = sfab_fail(err, -EINVAL, "rank %u is no member of its own exchange", boot->rank);
    }
    free(named);
    return status;
}

int sfab_boot_contribute(struct sfab_boot *boot, uint16_t type, uint64_t tag,
                         const uint32_t *members, uint32_t count, const void *blob, size_t len)
{
    uint32_t named = members != NULL ? count : 0;
    size_t head = sfab_frame_gather_bytes(named);
    uint8_t *payload = malloc(head + len);
    if (payload == NULL) {
        return -ENOMEM;
    }
    sfab_frame_put_gather(payload, head, tag, members, named);
    if (len > 0) {
        memcpy(payload + head, blob, len);
    }
    int status = sfab_boot_put(boot, type, payload, head + len);
    free(payload);
    return status;
}

/* Under lock: until the exchange has ended, the rendezvous is lost, or the time is over. */
static int wait_done(struct sfab_boot *boot, uint64_t deadline_ns)
{
    int status = 0;
    while (!boot->gather.done && !boot->lost && status == 0) {
        status = sfab_boot_wait(boot, deadline_ns);
    }
    return boot->gather.done ? 0 : boot->lost ? -ECONNRESET : status;
}

/* Under lock. */
static int wait_or_cancel(struct sfab_boot *boot, int64_t timeout_ns)
{
    uint64_t start_ns = sfab_now_ns();
    uint64_t span_ns = timeout_ns < 0 ? UINT64_MAX : (uint64_t)timeout_ns;
    int status = wait_done(boot, sfab_deadline_ns(start_ns, span_ns));
    if (status != -ETIMEDOUT) {
        return status;
    }
    struct sfab_cancel cancel = {.tag = boot->gather.tag,
                                 .waited_ms = (sfab_now_ns() - start_ns) / 1000000};
    uint8_t payload[16];
    size_t len = sfab_frame_put_cancel(payload, sizeof payload, &cancel);
    int put = sfab_boot_put(boot, SFAB_FRAME_CANCEL, payload, len);
    return put != 0 ? put : wait_done(boot, sfab_now_ns() + SFAB_VERDICT_WAIT_NS);
}

/* Under lock: the outcome as a code and a sentence. */
static int outcome(struct sfab_boot *boot, int status, struct sfab_boot_blob **table,
                   struct sfab_err *err)
{
    struct sfab_pending_gather *g = &boot->gather;
    if (status == 0 && g->verdict.code == 0) {
        *table = g->table;
        return 0;
    }
    if (status == 0) {
        return sfab_fail(err, g->verdict.code, "%s", g->verdict.text);
    }
    if (boot->lost) {
        return sfab_fail(err, -ECONNRESET, "%s", boot->lost_text);
    }
    if (status == -ETIMEDOUT) {
        return sfab_fail(
            err, status,
            "rank %u gave up waiting for an exchange of %u ranks, and the rendezvous at "
            "%s does not say who has not come",
            boot->rank, g->count, boot->where);
    }
    return sfab_fail(err, status, "rank %u cannot send to the rendezvous at %s: %s", boot->rank,
                     boot->where, sfab_errno_text(-status));
}

int sfab_boot_allgather(struct sfab_boot *boot, uint64_t tag, const uint32_t *members,
                        uint32_t count, const void *blob, size_t len, int64_t timeout_ns,
                        struct sfab_boot_blob **table, struct sfab_err *err)
{
    if (len > SFAB_BOOT_BLOB_MAX || (blob == NULL && len > 0)) {
        return sfab_fail(err, -EINVAL, "a blob of %zu bytes cannot be exchanged (at most %d)", len,
                         SFAB_BOOT_BLOB_MAX);
    }
    int status = sfab_boot_check_members(boot, members, count, err);
    if (status != 0) {
        return status;
    }
    pthread_mutex_lock(&boot->lock);
    if (boot->gather.active || boot->left) {
        bool left = boot->left;
        pthread_mutex_unlock(&boot->lock);
        return sfab_fail(err, left ? -ENOTCONN : -EBUSY, "rank %u %s", boot->rank,
                         left ? "has left the job: no more exchanges"
                              : "is in another exchange already");
    }
    boot->gather = (struct sfab_pending_gather){.active = true, .tag = tag, .count = count};
    status = boot->lost
                 ? -ECONNRESET
                 : sfab_boot_contribute(boot, SFAB_FRAME_GATHER, tag, members, count, blob, len);
    if (status == 0) {
        status = wait_or_cancel(boot, timeout_ns);
    }
    status = outcome(boot, status, table, err);
    boot->gather.active = false;
    pthread_mutex_unlock(&boot->lock);
    return status;
}
