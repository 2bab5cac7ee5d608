/* client_loop.c - the control thread: reads what the server sends and calls the owner's events. */
#include "fabric/boot/client_impl.h"
#include "fabric/boot/heart.h"
#include "fabric/boot/net.h"
#include "fabric/log.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
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
    if (boot->gone[gone->rank] != 0 || (gone->rank == boot->rank && gone->how == SFAB_BOOT_LEFT)) {
        return 0; /* only this thread writes gone[], so it may be read without the lock */
    }
    if (boot->events.gone != NULL) {
        boot->events.gone(boot->events.arg, gone->rank, (enum sfab_boot_gone)gone->how,
                          gone->goodbye,
                          boot->whys[gone->rank] != NULL ? boot->whys[gone->rank] : "");
    }
    if (gone->rank == boot->rank) {
        return 0; /* the others have given this one up: the connection ends next */
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
    case SFAB_FRAME_SURVEYED:
    case SFAB_FRAME_SURVEY_MISSING:
    case SFAB_FRAME_WHY:
    case SFAB_FRAME_ABORTED:
        return sfab_boot_fail_frame(boot, frame);
    case SFAB_FRAME_BEAT:
        return 0; /* the kernel has acknowledged it, which was all */
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
    boot->heard_ns = sfab_now_ns();
    boot->beat_ns = 0;
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
    case -EHOSTDOWN:
        return "its host acknowledges nothing any more";
    default:
        return sfab_errno_text(-status);
    }
}

/* ---- the server's host ------------------------------------------------------------------- */

/* The server sends something several times in a timeout. When nothing has come, either it stands still or
 * its host is gone: a beat of our own, and whether that is acknowledged, tells which. */
static int check_server(struct sfab_boot *boot, uint64_t now_ns, uint64_t *next_ns)
{
    uint64_t timeout_ns =
        boot->heartbeat_timeout_ns != 0 ? boot->heartbeat_timeout_ns : 1000000000u;
    struct sfab_heart heart;
    *next_ns = now_ns + timeout_ns / 4;
    if (now_ns - boot->heard_ns < timeout_ns / 2) {
        return 0;
    }
    if (boot->beat_ns == 0) {
        pthread_mutex_lock(&boot->lock);
        (void)sfab_boot_put(boot, SFAB_FRAME_BEAT, NULL, 0);
        pthread_mutex_unlock(&boot->lock);
        boot->beat_ns = now_ns;
        return 0;
    }
    if (!sfab_heart_look(boot->stream.fd, &heart)) {
        return 0;
    }
    if (heart.unacked == 0) {
        boot->beat_ns = 0; /* the host is there; ask again */
        return 0;
    }
    return sfab_heart_silent(&heart, now_ns - boot->beat_ns, timeout_ns) ? -EHOSTDOWN : 0;
}

static uint64_t tick(struct sfab_boot *boot, uint64_t now_ns)
{
    if (boot->events.tick == NULL) {
        return UINT64_MAX;
    }
    if (now_ns >= boot->next_tick_ns) {
        boot->next_tick_ns = sfab_deadline_ns(now_ns, boot->events.tick(boot->events.arg));
    }
    return boot->next_tick_ns;
}

/* ---- the thread -------------------------------------------------------------------------- */

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

/* One wait and what it brings: 0, or what ends the connection. */
static int one_round(struct sfab_boot *boot, struct pollfd **fds, size_t *cap)
{
    enum { HEAD = 2 };
    uint64_t now_ns = sfab_now_ns();
    uint64_t next_ns;
    uint64_t tick_ns = tick(boot, now_ns);
    int status = check_server(boot, now_ns, &next_ns);
    if (status != 0) {
        return status;
    }
    size_t watched = sfab_boot_watched(boot, fds, cap, HEAD);
    struct pollfd *p = *fds;
    p[0] = (struct pollfd){.fd = boot->wake_fd, .events = POLLIN};
    p[1] = (struct pollfd){.fd = boot->stream.fd,
                           .events = (short)(POLLIN | (is_pending(boot) ? POLLOUT : 0))};
    if (poll(p, HEAD + watched, sfab_poll_ms(now_ns, tick_ns < next_ns ? tick_ns : next_ns)) < 0) {
        return 0;
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
    for (size_t i = 0; i < watched; i++) {
        if (p[HEAD + i].revents != 0) {
            sfab_boot_ended(boot, i);
        }
    }
    return status;
}

void *sfab_boot_loop(void *arg)
{
    struct sfab_boot *boot = arg;
    size_t cap = 16;
    struct pollfd *fds = calloc(cap, sizeof *fds);
    sfab_log_set_name(boot->name);
    boot->heard_ns = sfab_now_ns();
    /* The creator holds the lock until the owner's pointer to this handle is set. */
    bool stop = wants_stop(boot);
    int status = fds == NULL ? -ENOMEM : stop ? 0 : handle_all(boot);
    while (status == 0 && !wants_stop(boot)) {
        status = one_round(boot, &fds, &cap);
    }
    free(fds);
    if (status != 0) {
        tell_lost(boot, status);
    }
    return NULL;
}
