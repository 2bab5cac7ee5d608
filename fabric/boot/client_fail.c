/* client_fail.c - a rank's end of what failures need: surveys, accusations, aborts, and watching the
 * processes of other ranks on this node. */
#include "fabric/boot/client_impl.h"
#include "fabric/log.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- what the owner says ----------------------------------------------------------------- */

/* Under lock. */
static int may_say(const struct sfab_boot *boot)
{
    return boot->lost ? -ECONNRESET : boot->left ? -ENOTCONN : 0;
}

static int say(struct sfab_boot *boot, uint16_t type, const void *payload, size_t len)
{
    pthread_mutex_lock(&boot->lock);
    int status = may_say(boot);
    if (status == 0) {
        status = sfab_boot_put(boot, type, payload, len);
    }
    pthread_mutex_unlock(&boot->lock);
    return status;
}

int sfab_boot_survey(struct sfab_boot *boot, uint64_t tag, const uint32_t *members, uint32_t count,
                     const void *blob, size_t len)
{
    struct sfab_err err;
    if (len > SFAB_BOOT_BLOB_MAX || (blob == NULL && len > 0)) {
        return -EINVAL;
    }
    int status = sfab_boot_check_members(boot, members, count, &err);
    if (status != 0) {
        return status;
    }
    pthread_mutex_lock(&boot->lock);
    status = may_say(boot);
    if (status == 0) {
        status = sfab_boot_contribute(boot, SFAB_FRAME_SURVEY, tag, members, count, blob, len);
    }
    pthread_mutex_unlock(&boot->lock);
    return status;
}

int sfab_boot_survey_ask(struct sfab_boot *boot, uint64_t tag)
{
    uint8_t payload[8];
    return say(boot, SFAB_FRAME_SURVEY_ASK, payload,
               sfab_frame_put_u64(payload, sizeof payload, tag));
}

/* ACCUSE and DEAD. */
static int say_of(struct sfab_boot *boot, uint16_t type, uint32_t rank, const char *text)
{
    uint8_t payload[SFAB_FRAME_MESSAGE_HEAD_BYTES + SFAB_BOOT_WHY_MAX];
    if (rank >= boot->size || text == NULL) {
        return -EINVAL;
    }
    size_t head = sfab_frame_put_message_head(payload, sizeof payload, rank, 0);
    size_t len = strnlen(text, SFAB_BOOT_WHY_MAX - 1);
    memcpy(payload + head, text, len);
    return say(boot, type, payload, head + len);
}

int sfab_boot_accuse(struct sfab_boot *boot, uint32_t rank, const char *text)
{
    return say_of(boot, SFAB_FRAME_ACCUSE, rank, text);
}

int sfab_boot_last_words(struct sfab_boot *boot, const char *text)
{
    return say_of(boot, SFAB_FRAME_WORDS, boot->rank, text);
}

int sfab_boot_abort(struct sfab_boot *boot, int code, const char *text)
{
    struct sfab_verdict verdict = {.code = code};
    uint8_t payload[SFAB_FRAME_TEXT_MAX + 16];
    if (code >= 0 || text == NULL) {
        return -EINVAL;
    }
    snprintf(verdict.text, sizeof verdict.text, "%.*s", SFAB_BOOT_WHY_MAX - 1, text);
    return say(boot, SFAB_FRAME_ABORT, payload,
               sfab_frame_put_verdict(payload, sizeof payload, &verdict));
}

/* ---- watching ---------------------------------------------------------------------------- */

int sfab_boot_watch(struct sfab_boot *boot, uint32_t rank, uint32_t pid)
{
    if (rank >= boot->size || rank == boot->rank || pid == 0 || pid > INT32_MAX) {
        return -EINVAL;
    }
    int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    if (fd < 0) {
        return errno == ENOSYS || errno == EPERM ? -EOPNOTSUPP : -errno;
    }
    pthread_mutex_lock(&boot->lock);
    struct sfab_watch *more =
        realloc(boot->watches, (boot->watch_count + 1) * sizeof *boot->watches);
    if (more != NULL) {
        boot->watches = more;
        boot->watches[boot->watch_count++] = (struct sfab_watch){.fd = fd, .rank = rank};
    }
    pthread_mutex_unlock(&boot->lock);
    if (more == NULL) {
        close(fd);
        return -ENOMEM;
    }
    sfab_boot_wake(boot);
    return 0;
}

size_t sfab_boot_watched(struct sfab_boot *boot, struct pollfd **fds, size_t *cap, size_t head)
{
    pthread_mutex_lock(&boot->lock);
    size_t count = boot->watch_count;
    if (head + count > *cap) {
        struct pollfd *more = realloc(*fds, (head + count) * sizeof *more);
        if (more != NULL) {
            *fds = more;
            *cap = head + count;
        } else {
            count = *cap - head; /* the others are watched by somebody else, or by nobody */
        }
    }
    for (size_t i = 0; i < count; i++) {
        (*fds)[head + i] = (struct pollfd){.fd = boot->watches[i].fd, .events = POLLIN};
    }
    pthread_mutex_unlock(&boot->lock);
    return count;
}

void sfab_boot_ended(struct sfab_boot *boot, size_t watch)
{
    pthread_mutex_lock(&boot->lock);
    uint32_t rank = boot->watches[watch].rank;
    close(boot->watches[watch].fd);
    boot->watches[watch].fd = -1; /* poll skips it */
    pthread_mutex_unlock(&boot->lock);
    if (boot->gone[rank] == 0) {
        (void)say_of(boot, SFAB_FRAME_DEAD, rank, "its process has ended without sfab_close");
    }
}

void sfab_boot_unwatch(struct sfab_boot *boot)
{
    for (size_t i = 0; i < boot->watch_count; i++) {
        if (boot->watches[i].fd >= 0) {
            close(boot->watches[i].fd);
        }
    }
    free(boot->watches);
}

/* ---- what the server says: CONTROL THREAD ------------------------------------------------ */

static int surveyed_frame(struct sfab_boot *boot, const struct sfab_frame *frame)
{
    struct sfab_gathered got;
    if (sfab_frame_get_surveyed(frame->payload, frame->len_bytes, SFAB_BOOT_BLOB_MAX, &got) != 0 ||
        got.count > boot->size) {
        return -EPROTO;
    }
    struct sfab_boot_blob *table = calloc(got.count + 1, sizeof *table);
    if (table == NULL) {
        return -ENOMEM;
    }
    const uint8_t *at = got.blobs;
    for (uint32_t i = 0; i < got.count; i++) {
        uint32_t len = sfab_frame_u32_at(got.lens_be, i);
        if (len > 0) {
            table[i] = (struct sfab_boot_blob){.data = at, .len_bytes = len - 1};
            at += len - 1;
        }
    }
    if (boot->events.surveyed != NULL) {
        boot->events.surveyed(boot->events.arg, got.tag, table, got.count);
    }
    free(table);
    return 0;
}

static int why_frame(struct sfab_boot *boot, const struct sfab_frame *frame)
{
    struct sfab_message word;
    if (sfab_frame_get_message(frame->payload, frame->len_bytes, SFAB_BOOT_WHY_MAX, &word) != 0 ||
        word.rank >= boot->size) {
        return -EPROTO;
    }
    char text[SFAB_BOOT_WHY_MAX];
    sfab_frame_get_text(&word, text, sizeof text);
    free(boot->whys[word.rank]);
    boot->whys[word.rank] = strdup(text);
    return boot->whys[word.rank] != NULL ? 0 : -ENOMEM;
}

int sfab_boot_fail_frame(struct sfab_boot *boot, const struct sfab_frame *frame)
{
    struct sfab_verdict verdict;
    if (frame->type == SFAB_FRAME_SURVEYED) {
        return surveyed_frame(boot, frame);
    }
    if (frame->type == SFAB_FRAME_WHY) {
        return why_frame(boot, frame);
    }
    if (sfab_frame_get_verdict(frame->payload, frame->len_bytes, &verdict) != 0) {
        return -EPROTO;
    }
    if (frame->type == SFAB_FRAME_SURVEY_MISSING && boot->events.survey_missing != NULL) {
        boot->events.survey_missing(boot->events.arg, verdict.tag, verdict.text);
    }
    if (frame->type == SFAB_FRAME_ABORTED && boot->events.aborted != NULL) {
        uint32_t by = verdict.tag < boot->size ? (uint32_t)verdict.tag : UINT32_MAX;
        boot->events.aborted(boot->events.arg, by, verdict.code, verdict.text);
    }
    return 0;
}
