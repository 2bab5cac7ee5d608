/* run_label.c - output labelled by rank.
 *
 * Each rank writes to two pipes; a thread forwards whole lines with "[rank] " before them. A thread
 * of its own, as its writes may block for as long as whoever reads our output likes, and the keeper
 * must not. When our own output is closed, the ranks' pipes of that kind are closed too: they then
 * find out as they would without labels. */
#include "tools/run_impl.h"

#include "fabric/boot/net.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LABEL_BYTES 16
#define LINE_FIRST  1024
#define LINE_LIMIT  (1u << 20) /* a longer line is broken up */

/* One of a rank's two outputs. The line begins with its label. */
struct flow {
    int from;      /* -1: ended */
    int write_end; /* the rank's; -1 once all are started */
    int to;        /* our stdout or stderr */
    size_t label_bytes, used, cap;
    char *line;
};

struct sfab_run_label {
    uint32_t count; /* of flows: 2r is rank r's stdout, 2r + 1 its stderr */
    struct flow *flows;
    struct pollfd *pollfds;
    int done_fd;
};

/* ---- setting up -------------------------------------------------------------------------- */

static int flow_init(struct flow *flow, uint32_t rank, int to)
{
    int ends[2];
    *flow = (struct flow){.from = -1, .write_end = -1, .to = to, .cap = LINE_FIRST};
    flow->line = malloc(LINE_FIRST);
    if (flow->line == NULL) {
        return -ENOMEM;
    }
    flow->label_bytes = (size_t)snprintf(flow->line, LABEL_BYTES, "[%u] ", rank);
    flow->used = flow->label_bytes;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -errno;
    }
    flow->from = ends[0];
    flow->write_end = ends[1];
    return fcntl(flow->from, F_SETFL, O_NONBLOCK) == 0 ? 0 : -errno;
}

/* On failure the keeper ends, and with it whatever was opened. */
int sfab_run_label_new(uint32_t ranks, struct sfab_run_label **out)
{
    struct sfab_run_label *label = calloc(1, sizeof *label);
    if (label == NULL) {
        return -ENOMEM;
    }
    label->count = 2 * ranks;
    label->flows = calloc(label->count, sizeof(*label->flows));
    label->pollfds = calloc(label->count, sizeof(*label->pollfds));
    label->done_fd = eventfd(0, EFD_CLOEXEC);
    if (label->flows == NULL || label->pollfds == NULL || label->done_fd < 0) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < label->count; i++) {
        int status = flow_init(&label->flows[i], i / 2, i % 2 == 0 ? STDOUT_FILENO : STDERR_FILENO);
        if (status != 0) {
            return status;
        }
    }
    *out = label;
    return 0;
}

void sfab_run_label_ends(const struct sfab_run_label *label, uint32_t rank, int ends[2])
{
    ends[0] = label->flows[2 * rank].write_end;
    ends[1] = label->flows[2 * rank + 1].write_end;
}

int sfab_run_label_done_fd(const struct sfab_run_label *label)
{
    return label->done_fd;
}

/* ---- forwarding -------------------------------------------------------------------------- */

static bool write_all(int fd, const char *at, size_t left)
{
    while (left > 0) {
        ssize_t n = write(fd, at, left);
        if (n < 0 && errno == EAGAIN) { /* somebody has made our output non-blocking */
            struct pollfd p = {.fd = fd, .events = POLLOUT};
            poll(&p, 1, -1);
        } else if (n < 0 && errno != EINTR) {
            return false;
        } else if (n > 0) {
            at += n;
            left -= (size_t)n;
        }
    }
    return true;
}

static void flow_close(struct flow *flow)
{
    if (flow->from >= 0) {
        close(flow->from);
        flow->from = -1;
    }
    free(flow->line);
    flow->line = NULL;
}

static void close_all_to(struct sfab_run_label *label, int to)
{
    for (uint32_t i = 0; i < label->count; i++) {
        if (label->flows[i].to == to) {
            flow_close(&label->flows[i]);
        }
    }
}

/* Writes the line as it is, ended by a newline, and begins the next. False: nobody reads any more.
 */
static bool flow_emit(struct flow *flow)
{
    bool ok = write_all(flow->to, flow->line, flow->used);
    flow->used = flow->label_bytes;
    return ok;
}

static bool flow_add(struct flow *flow, char c)
{
    /* One byte is kept for the newline of a line that is broken up. */
    if (flow->used + 2 > flow->cap) {
        char *line = flow->cap < LINE_LIMIT ? realloc(flow->line, flow->cap * 2) : NULL;
        if (line != NULL) {
            flow->line = line;
            flow->cap *= 2;
        } else {
            flow->line[flow->used++] = '\n';
            if (!flow_emit(flow)) {
                return false;
            }
        }
    }
    flow->line[flow->used++] = c;
    return c == '\n' ? flow_emit(flow) : true;
}

/* Forwards what has come. False: our own output is closed. */
static bool flow_forward(struct flow *flow)
{
    char bytes[8192];
    ssize_t n = read(flow->from, bytes, sizeof bytes);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return true;
    }
    bool ok = true;
    for (ssize_t i = 0; ok && i < n; i++) {
        ok = flow_add(flow, bytes[i]);
    }
    if (n <= 0) {
        if (flow->used > flow->label_bytes) {
            ok = flow_add(flow, '\n');
        }
        flow_close(flow);
    }
    return ok;
}

static void *forward(void *arg)
{
    struct sfab_run_label *label = arg;
    for (;;) {
        uint32_t open = 0;
        for (uint32_t i = 0; i < label->count; i++) {
            label->pollfds[i] = (struct pollfd){.fd = label->flows[i].from, .events = POLLIN};
            open += label->flows[i].from >= 0 ? 1 : 0;
        }
        if (open == 0) {
            break;
        }
        if (poll(label->pollfds, label->count, -1) < 0) {
            continue;
        }
        for (uint32_t i = 0; i < label->count; i++) {
            struct flow *flow = &label->flows[i];
            if (flow->from >= 0 && label->pollfds[i].revents != 0 && !flow_forward(flow)) {
                close_all_to(label, flow->to);
            }
        }
    }
    uint64_t one = 1;
    ssize_t n = write(label->done_fd, &one, sizeof one);
    (void)n;
    return NULL;
}

int sfab_run_label_start(struct sfab_run_label *label)
{
    for (uint32_t i = 0; i < label->count; i++) {
        close(label->flows[i].write_end);
        label->flows[i].write_end = -1;
    }
    /* Nobody joins it: done_fd tells when it is through, and if it is not, the keeper ends over it.
     */
    pthread_t thread;
    int trouble = pthread_create(&thread, NULL, forward, label);
    return trouble == 0 ? -pthread_detach(thread) : -trouble;
}
