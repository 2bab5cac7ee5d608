/* client_loop.c - the control thread: reads what the server sends and calls the owner's events. */
#include "fabric/boot/client_impl.h"
#include "fabric/log.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- frames ------------------------------------------------------------------------------ */

static int message_frame(struct sfab_boot *boot, const struct sfab_frame *frame)
{
    struct sfab_message message;
    if (sfab_frame_get_message(frame->payload, frame->len_bytes, SFAB_BOOT_MESSAGE_MAX, &message) !=
            0 ||
        message.rank >= boot->size) {
        return -EPROTO;
    }
    if (boot->events.message != NULL) {
        boot->events.message(boot->events.arg, message.rank, message.channel, message.data,
                             message.len_bytes);
    }
    return 0;
}

/* The event comes first: who waits in sfab_boot_leave returns after the last one. */
static int one_gone(struct sfab_boot *boot, const struct sfab_gone *gone)
{
    if (gone->rank >= boot->size) {
        return -EPROTO;
    }
    if (gone->rank == boot->rank || boot->gone[gone->rank] != 0) {
        return 0; /* only this thread writes gone[], so it may be read without the lock */
    }
    if (boot->events.gone != NULL) {
        boot->events.gone(boot->events.arg, gone->rank, (enum sfab_boot_gone)gone->how,
                          gone->goodbye);
    }
    pthread_mutex_lock(&boot->lock);
    boot->gone[gone->rank] = (uint8_t)(1 + gone->how);
    boot->gone_count++;
    pthread_cond_broadcast(&boot->changed);
    pthread_mutex_unlock(&boot->lock);
    return 0;
}

static int gone_frame(struct sfab_boot *boot, const struct sfab_frame *frame)
{
    uint32_t count;
    int status = sfab_frame_gone_count(frame->payload, frame->len_bytes, &count);
    for (uint32_t i = 0; status == 0 && i < count; i++) {
        struct sfab_gone gone;
        status = sfab_frame_get_gone(frame->payload, i, &gone);
        if (status == 0) {
            status = one_gone(boot, &gone);
        }
    }
    return status;
}

static int handle(struct sfab_boot *boot, const struct sfab_frame *frame)
{
    switch (frame->type) {
    case SFAB_FRAME_MESSAGE:
        return message_frame(boot, frame);
    case SFAB_FRAME_GONE:
        return gone_frame(boot, frame);
    case SFAB_FRAME_GATHERED:
    case SFAB_FRAME_GATHER_FAILED:
        return sfab_boot_gather_frame(boot, frame);
    default:
        return -EPROTO;
    }
}

/* ---- the loop ---------------------------------------------------------------------------- */

static bool wants_stop(struct sfab_boot *boot)
{
    pthread_mutex_lock(&boot->lock);
    bool stop = boot->stop;
    pthread_mutex_unlock(&boot->lock);
    return stop;
}

static int handle_all(struct sfab_boot *boot)
{
    for (;;) {
        struct sfab_frame frame;
        int status = sfab_stream_next(&boot->stream, &frame);
        if (status <= 0) {
            return status;
        }
        status = handle(boot, &frame);
        if (status != 0) {
            return status;
        }
        if (wants_stop(boot)) {
            return 0;
        }
    }
}

/* 0, or the negative errno that ends the connection (-ECONNRESET also for a plain close). */
static int read_some(struct sfab_boot *boot)
{
    ssize_t n = sfab_stream_fill(&boot->stream);
    if (n == -EAGAIN) {
        return 0;
    }
    if (n <= 0) {
        return n == 0 ? -ECONNRESET : (int)n;
    }
    return handle_all(boot);
}

static void write_some(struct sfab_boot *boot)
{
    pthread_mutex_lock(&boot->lock);
    /* A failure shows in reading, after what is still there to read. */
    (void)sfab_stream_flush(&boot->stream);
    pthread_cond_broadcast(&boot->changed);
    pthread_mutex_unlock(&boot->lock);
}

static bool is_pending(struct sfab_boot *boot)
{
    pthread_mutex_lock(&boot->lock);
    bool pending = sfab_stream_pending(&boot->stream);
    pthread_mutex_unlock(&boot->lock);
    return pending;
}

static void drain_wakes(struct sfab_boot *boot)
{
    uint64_t count;
    ssize_t n = read(boot->wake_fd, &count, sizeof count);
    (void)n; /* nothing there is fine */
}

static const char *loss_text(int status)
{
    switch (status) {
    case -EPROTO:
        return "it sent what is not the protocol";
    case -EBADMSG:
        return "a frame was damaged or forged";
    case -ECONNRESET:
        return "the connection was closed: its process has ended";
    default:
        return sfab_errno_text(-status);
    }
}

static void tell_lost(struct sfab_boot *boot, int status)
{
    char text[512];
    snprintf(text, sizeof text, "rank %u lost the rendezvous at %s: %s", boot->rank, boot->where,
             loss_text(status));
    pthread_mutex_lock(&boot->lock);
    boot->lost = true;
    memcpy(boot->lost_text, text, sizeof boot->lost_text);
    /* Once everybody has gone the server may go too. */
    bool expected = boot->stop || (boot->left && boot->gone_count + 1 >= boot->size);
    pthread_cond_broadcast(&boot->changed);
    pthread_mutex_unlock(&boot->lock);
    if (!expected && boot->events.lost != NULL) {
        boot->events.lost(boot->events.arg, text);
    }
}

void *sfab_boot_loop(void *arg)
{
    struct sfab_boot *boot = arg;
    sfab_log_set_name(boot->name);
    /* The creator holds the lock until the owner's pointer to this handle is set. */
    int status = wants_stop(boot) ? 0 : handle_all(boot);
    while (status == 0 && !wants_stop(boot)) {
        struct pollfd p[2] = {
            {.fd = boot->wake_fd, .events = POLLIN},
            {.fd = boot->stream.fd, .events = POLLIN | (is_pending(boot) ? POLLOUT : 0)}};
        if (poll(p, 2, -1) < 0) {
            continue;
        }
        if (p[0].revents != 0) {
            drain_wakes(boot);
        }
        if ((p[1].revents & POLLOUT) != 0) {
            write_some(boot);
        }
        if ((p[1].revents & ~POLLOUT) != 0) {
            status = read_some(boot);
        }
    }
    if (status != 0) {
        tell_lost(boot, status);
    }
    return NULL;
}
