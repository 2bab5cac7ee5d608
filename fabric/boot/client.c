/* client.c - a rank's end: joining, sending, leaving, closing. */
#include "fabric/boot/client_impl.h"
#include "fabric/boot/net.h"
#include "fabric/boot/ranges.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- shared by the files ----------------------------------------------------------------- */

int sfab_boot_wait(struct sfab_boot *boot, uint64_t deadline_ns)
{
    if (deadline_ns == UINT64_MAX) {
        pthread_cond_wait(&boot->changed, &boot->lock);
        return 0;
    }
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                             .tv_nsec = (long)(deadline_ns % 1000000000u)};
    return -pthread_cond_timedwait(&boot->changed, &boot->lock, &until);
}

void sfab_boot_wake(struct sfab_boot *boot)
{
    uint64_t one = 1;
    ssize_t n = write(boot->wake_fd, &one, sizeof one);
    (void)n; /* a full counter wakes as well */
}

int sfab_boot_put(struct sfab_boot *boot, uint16_t type, const void *data, size_t len)
{
    int status = sfab_stream_queue_copy(&boot->stream, type, data, len);
    if (status != 0) {
        return status;
    }
    /* A broken connection is the control thread's to find, after what there is still to read. */
    (void)sfab_stream_flush(&boot->stream);
    if (sfab_stream_pending(&boot->stream)) {
        sfab_boot_wake(boot);
    } else {
        pthread_cond_broadcast(&boot->changed); /* there is room again */
    }
    return 0;
}

/* ---- joining ----------------------------------------------------------------------------- */

static void boot_free(struct sfab_boot *boot)
{
    sfab_stream_end(&boot->stream);
    if (boot->wake_fd >= 0) {
        close(boot->wake_fd);
    }
    pthread_cond_destroy(&boot->changed);
    pthread_mutex_destroy(&boot->lock);
    sfab_boot_unwatch(boot);
    for (uint32_t i = 0; boot->whys != NULL && i < boot->size; i++) {
        free(boot->whys[i]);
    }
    free(boot->whys);
    free(boot->gone);
    free(boot);
}

static struct sfab_boot *boot_new(const struct sfab_boot_config *config,
                                  const struct sfab_boot_events *events)
{
    struct sfab_boot *boot = calloc(1, sizeof *boot);
    if (boot == NULL) {
        return NULL;
    }
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&boot->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&boot->lock, NULL);
    boot->rank = config->rank;
    boot->size = config->size;
    boot->stream.fd = -1;
    boot->heartbeat_timeout_ns = config->heartbeat_timeout_ns;
    if (events != NULL) {
        boot->events = *events;
    }
    bool v6 = strchr(config->host, ':') != NULL;
    snprintf(boot->where, sizeof boot->where, v6 ? "[%s]:%u" : "%s:%u", config->host, config->port);
    snprintf(boot->name, sizeof boot->name, "rank %u%s%.70s", config->rank,
             config->own_host != NULL ? " " : "", config->own_host != NULL ? config->own_host : "");
    boot->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    boot->gone = calloc(config->size, 1);
    boot->whys = calloc(config->size, sizeof(*boot->whys));
    if (boot->wake_fd < 0 || boot->gone == NULL || boot->whys == NULL) {
        boot_free(boot);
        return NULL;
    }
    return boot;
}

static int check_config(const struct sfab_boot_config *config, struct sfab_err *err)
{
    if (config->host == NULL || config->host[0] == '\0' || config->port == 0) {
        return sfab_fail(err, SFAB_ERR_CONFIG,
                         "rank %u does not know where the rendezvous is; set SFAB_ROOT=host:port",
                         config->rank);
    }
    if (config->size == 0 || config->rank >= config->size) {
        return sfab_fail(err, SFAB_ERR_CONFIG,
                         "rank %u is not in a job of %u ranks; see SFAB_RANK and SFAB_SIZE",
                         config->rank, config->size);
    }
    if (config->secret.len_bytes == 0 || config->secret.len_bytes > SFAB_BOOT_SECRET_MAX) {
        return sfab_fail(err, SFAB_ERR_AUTH,
                         "rank %u has no job secret (or one above %d bytes); set SFAB_SECRET or "
                         "SFAB_SECRET_FILE",
                         config->rank, SFAB_BOOT_SECRET_MAX);
    }
    return 0;
}

/* Signals are the program's affair: none may be delivered on a thread of ours. The lock is held
 * until *out is set, so that events find it set. */
static int start_thread(struct sfab_boot *boot, struct sfab_boot **out)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_mutex_lock(&boot->lock);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int trouble = pthread_create(&boot->thread, NULL, sfab_boot_loop, boot);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (trouble == 0) {
        *out = boot;
    }
    pthread_mutex_unlock(&boot->lock);
    return -trouble;
}

int sfab_boot_join(const struct sfab_boot_config *config, const struct sfab_boot_events *events,
                   struct sfab_boot **out, struct sfab_err *err)
{
    int status = check_config(config, err);
    if (status != 0) {
        return status;
    }
    struct sfab_boot *boot = boot_new(config, events);
    if (boot == NULL) {
        return sfab_fail(err, -ENOMEM, "rank %u has no memory or descriptors left to join a job",
                         config->rank);
    }
    status = sfab_boot_enter(boot, config, err);
    if (status == 0) {
        status = start_thread(boot, out);
        if (status != 0) {
            sfab_fail(err, status, "rank %u cannot start its control thread: %s", config->rank,
                      sfab_errno_text(-status));
        }
    }
    if (status != 0) {
        boot_free(boot);
    }
    return status;
}

/* ---- sending ----------------------------------------------------------------------------- */

/* Under lock: until there is room. Only the control thread may not wait, as it makes the room. */
static int wait_for_room(struct sfab_boot *boot)
{
    if (pthread_equal(pthread_self(), boot->thread)) {
        return boot->stream.out.own_bytes > SFAB_BACKLOG_MAX ? -ENOBUFS : 0;
    }
    while (boot->stream.out.own_bytes > SFAB_BACKLOG_BYTES && !boot->lost) {
        sfab_boot_wait(boot, UINT64_MAX);
    }
    return 0;
}

int sfab_boot_send(struct sfab_boot *boot, uint32_t dst, uint16_t channel, const void *data,
                   size_t len)
{
    if (dst >= boot->size || len > SFAB_BOOT_MESSAGE_MAX || (data == NULL && len > 0)) {
        return -EINVAL;
    }
    uint8_t payload[SFAB_FRAME_MESSAGE_HEAD_BYTES + SFAB_BOOT_MESSAGE_MAX];
    size_t head = sfab_frame_put_message_head(payload, sizeof payload, dst, channel);
    if (len > 0) {
        memcpy(payload + head, data, len);
    }
    pthread_mutex_lock(&boot->lock);
    int status = wait_for_room(boot);
    if (boot->lost) {
        status = -ECONNRESET;
    } else if (status == 0 && boot->gone[dst] != 0) {
        status = SFAB_ERR_PEER_DEAD;
    }
    if (status == 0) {
        status = sfab_boot_put(boot, SFAB_FRAME_SEND, payload, head + len);
    }
    pthread_mutex_unlock(&boot->lock);
    return status;
}

/* ---- leaving ----------------------------------------------------------------------------- */

static bool is_still_in(const void *arg, uint32_t rank)
{
    const struct sfab_boot *boot = arg;
    return rank != boot->rank && boot->gone[rank] == 0;
}

/* Under lock. */
static int leave_outcome(struct sfab_boot *boot, int64_t timeout_ns, struct sfab_err *err)
{
    if (boot->gone_count + 1 >= boot->size) {
        return 0;
    }
    if (boot->lost) {
        return sfab_fail(err, -ECONNRESET, "%s", boot->lost_text);
    }
    char who[400];
    char span[32];
    uint32_t count = sfab_ranges_text(who, sizeof who, boot->size, is_still_in, boot);
    return sfab_fail(err, -ETIMEDOUT, "rank %u left the job and waited %s: %s %s still in it",
                     boot->rank, sfab_span_text(span, sizeof span, (uint64_t)timeout_ns), who,
                     count == 1 ? "is" : "are");
}

int sfab_boot_leave(struct sfab_boot *boot, uint64_t goodbye, int64_t timeout_ns,
                    struct sfab_err *err)
{
    uint64_t span_ns = timeout_ns < 0 ? UINT64_MAX : (uint64_t)timeout_ns;
    uint64_t deadline_ns = sfab_deadline_ns(sfab_now_ns(), span_ns);
    uint8_t payload[8];
    size_t len = sfab_frame_put_u64(payload, sizeof payload, goodbye);
    int status = 0;
    pthread_mutex_lock(&boot->lock);
    if (!boot->left && !boot->lost) {
        status = sfab_boot_put(boot, SFAB_FRAME_LEAVE, payload, len);
        boot->left = status == 0;
    }
    if (status != 0) {
        sfab_fail(err, status, "rank %u cannot say goodbye: %s", boot->rank,
                  sfab_errno_text(-status));
    } else {
        while (boot->gone_count + 1 < boot->size && !boot->lost && status == 0) {
            status = sfab_boot_wait(boot, deadline_ns);
        }
        status = leave_outcome(boot, timeout_ns, err);
    }
    pthread_mutex_unlock(&boot->lock);
    return status;
}

void sfab_boot_close(struct sfab_boot *boot)
{
    if (boot == NULL) {
        return;
    }
    pthread_mutex_lock(&boot->lock);
    boot->stop = true;
    (void)sfab_stream_flush(&boot->stream);
    pthread_cond_broadcast(&boot->changed);
    pthread_mutex_unlock(&boot->lock);
    sfab_boot_wake(boot);
    pthread_join(boot->thread, NULL);
    boot_free(boot);
}
