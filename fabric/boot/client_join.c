/* client_join.c - connecting, the handshake, waiting for the others.
 *
 * Runs on the caller's thread and may block, but never beyond the join timeout and the moment after
 * it that the server has to name who is missing. What can pass is retried: nobody listening yet, a
 * name that does not resolve yet, a server too busy to take the connection. */
#include "fabric/boot/client_impl.h"
#include "fabric/boot/net.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RETRY_FIRST_NS 2000000u
#define RETRY_MAX_NS   200000000u
#define CONNECT_MAX_NS 5000000000ull /* for one address: then the next one, or again */
#define UNPROVED_ATTEMPTS                                                                          \
    3 /* closed after our proof: a busy server may have done that, but not often */

/* Where an attempt stands. */
struct attempt {
    const struct sfab_boot_config *config;
    struct sfab_boot *boot;
    uint64_t start_ns, deadline_ns;
    unsigned unproved; /* times the server closed after our proof */
    char seen[200];    /* what the last failed attempt saw */
};

#define ONCE_MORE 1

/* ---- connecting -------------------------------------------------------------------------- */

static int wait_connected(int fd, uint64_t deadline_ns)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    for (;;) {
        uint64_t now_ns = sfab_now_ns();
        int n = poll(&p, 1, sfab_poll_ms(now_ns, deadline_ns));
        if (n > 0) {
            int trouble = 0;
            socklen_t bytes = sizeof trouble;
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &trouble, &bytes);
            return -trouble;
        }
        if (n < 0 && errno != EINTR) {
            return -errno;
        }
        if (n == 0 && sfab_now_ns() >= deadline_ns) {
            return -ETIMEDOUT;
        }
    }
}

/* A port of this host on which nobody listens may be given to the very socket that connects to it,
 * which then talks to itself, and keeps the port from the server. */
static bool is_connected_to_itself(int fd)
{
    struct sockaddr_storage here;
    struct sockaddr_storage there;
    memset(&here, 0, sizeof here);
    memset(&there, 0, sizeof there);
    socklen_t here_bytes = sizeof here;
    socklen_t there_bytes = sizeof there;
    return getsockname(fd, (struct sockaddr *)&here, &here_bytes) == 0 &&
           getpeername(fd, (struct sockaddr *)&there, &there_bytes) == 0 &&
           here_bytes == there_bytes && memcmp(&here, &there, here_bytes) == 0;
}

static int connect_to(const struct addrinfo *at, uint64_t deadline_ns, int *out)
{
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -errno;
    }
    int status = connect(fd, at->ai_addr, at->ai_addrlen) == 0 ? 0 : -errno;
    if (status == -EINPROGRESS || status == -EINTR) {
        status = wait_connected(fd, deadline_ns);
    }
    if (status == 0 && is_connected_to_itself(fd)) {
        status = -ECONNREFUSED;
    }
    if (status != 0) {
        close(fd);
        return status;
    }
    sfab_net_tune(fd);
    *out = fd;
    return 0;
}

/* 0, ONCE_MORE, or an error with its sentence. */
static int connect_once(struct attempt *a, int *out, struct sfab_err *err)
{
    char port[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    snprintf(port, sizeof port, "%u", a->config->port);
    int trouble = getaddrinfo(a->config->host, port, &hints, &found);
    if (trouble == EAI_AGAIN || trouble == EAI_SYSTEM || trouble == EAI_MEMORY) {
        snprintf(a->seen, sizeof a->seen, "%s",
                 trouble == EAI_SYSTEM ? sfab_errno_text(errno) : gai_strerror(trouble));
        return ONCE_MORE;
    }
    if (trouble != 0) {
        return sfab_fail(err, SFAB_ERR_CONFIG,
                         "rank %u cannot resolve the rendezvous' host '%s': %s; see SFAB_ROOT",
                         a->config->rank, a->config->host, gai_strerror(trouble));
    }
    int status = -EADDRNOTAVAIL;
    for (const struct addrinfo *at = found; at != NULL && status != 0; at = at->ai_next) {
        uint64_t until_ns = sfab_deadline_ns(sfab_now_ns(), CONNECT_MAX_NS);
        status = connect_to(at, until_ns < a->deadline_ns ? until_ns : a->deadline_ns, out);
    }
    freeaddrinfo(found);
    if (status != 0) {
        snprintf(a->seen, sizeof a->seen, "%s", sfab_errno_text(-status));
        return ONCE_MORE;
    }
    return 0;
}

/* ---- the handshake ----------------------------------------------------------------------- */

/* 1: a frame; -ETIMEDOUT; -ECONNRESET: closed; -EPROTO, -EBADMSG; other errno. Writes what is
 * queued meanwhile. */
static int wait_frame(struct sfab_stream *stream, uint64_t deadline_ns, struct sfab_frame *frame)
{
    for (;;) {
        int status = sfab_stream_next(stream, frame);
        if (status != 0) {
            return status;
        }
        ssize_t n = sfab_stream_fill(stream);
        if (n > 0) {
            continue;
        }
        if (n == 0 || n == -EPIPE) {
            return -ECONNRESET;
        }
        if (n != -EAGAIN) {
            return (int)n;
        }
        status = sfab_stream_flush(stream);
        if (status != 0) {
            return status == -EPIPE ? -ECONNRESET : status;
        }
        struct pollfd p = {.fd = stream->fd,
                           .events = POLLIN | (sfab_stream_pending(stream) ? POLLOUT : 0)};
        uint64_t now_ns = sfab_now_ns();
        if (now_ns >= deadline_ns) {
            return -ETIMEDOUT;
        }
        if (poll(&p, 1, sfab_poll_ms(now_ns, deadline_ns)) < 0 && errno != EINTR) {
            return -errno;
        }
    }
}

static int own_hello(const struct sfab_boot_config *config, struct sfab_hello *hello)
{
    *hello = (struct sfab_hello){
        .wire_version = SFAB_WIRE_VERSION, .rank = config->rank, .size = config->size};
    snprintf(hello->version, sizeof hello->version, "%s", sfab_version());
    if (config->own_host != NULL) {
        snprintf(hello->host, sizeof hello->host, "%s", config->own_host);
    } else if (gethostname(hello->host, sizeof hello->host - 1) != 0) {
        hello->host[0] = '\0';
    }
    return sfab_auth_nonce(hello->nonce);
}

static int not_syncfab(const struct attempt *a, struct sfab_err *err)
{
    return sfab_fail(err, -EPROTO,
                     "rank %u: what answers at %s is not a syncfab rendezvous; see SFAB_ROOT",
                     a->config->rank, a->boot->where);
}

static int no_answer(const struct attempt *a, struct sfab_err *err)
{
    char span[32];
    return sfab_fail(
        err, -ETIMEDOUT,
        "rank %u connected to %s, but nothing there spoke within %s; see SFAB_ROOT, and "
        "whether that process is stopped",
        a->config->rank, a->boot->where,
        sfab_span_text(span, sizeof span, sfab_now_ns() - a->start_ns));
}

static int wrong_secret(const struct attempt *a, struct sfab_err *err)
{
    return sfab_fail(
        err, SFAB_ERR_AUTH,
        "rank %u: the rendezvous at %s closed the connection after this rank's proof: it "
        "has another job secret; give every process the same SFAB_SECRET or "
        "SFAB_SECRET_FILE",
        a->config->rank, a->boot->where);
}

/* Sends HELLO, answers the CHALLENGE, and leaves the stream secured in both directions. */
static int prove(struct attempt *a, struct sfab_err *err)
{
    struct sfab_stream *stream = &a->boot->stream;
    struct sfab_hello hello;
    struct sfab_frame frame;
    struct sfab_auth_keys keys;
    uint8_t payload[SFAB_FRAME_HELLO_MAX];
    uint8_t nonce[SFAB_FRAME_NONCE_BYTES];
    int status = own_hello(a->config, &hello);
    size_t len = sfab_frame_put_hello(payload, sizeof payload, &hello);
    if (status == 0) {
        status = sfab_stream_queue_copy(stream, SFAB_FRAME_HELLO, payload, len);
    }
    if (status != 0) {
        return sfab_fail(err, status, "rank %u cannot begin to join: %s", a->config->rank,
                         sfab_errno_text(-status));
    }
    status = wait_frame(stream, a->deadline_ns, &frame);
    if (status == -ETIMEDOUT) {
        return no_answer(a, err);
    }
    if (status == -EPROTO ||
        (status == 1 && (frame.type != SFAB_FRAME_CHALLENGE ||
                         sfab_frame_get_bytes32(frame.payload, frame.len_bytes, nonce) != 0))) {
        return not_syncfab(a, err);
    }
    if (status < 0) { /* too busy for us, or going down */
        snprintf(a->seen, sizeof a->seen, "it closed the connection at once");
        return ONCE_MORE;
    }
    status = sfab_auth_derive(&a->config->secret, payload, len, nonce, &keys);
    if (status == 0) {
        status = sfab_stream_queue_copy(stream, SFAB_FRAME_PROOF, keys.proof, sizeof keys.proof);
    }
    if (status == 0) {
        status = sfab_stream_secure_out(stream, keys.session, SFAB_AUTH_TO_SERVER);
    }
    if (status == 0) {
        status = sfab_stream_secure_in(stream, keys.session, SFAB_AUTH_TO_CLIENT);
    }
    sfab_auth_wipe(&keys, sizeof keys);
    if (status != 0) {
        return sfab_fail(err, status, "rank %u cannot prove the job secret: %s", a->config->rank,
                         sfab_errno_text(-status));
    }
    return 0;
}

static int refused(const struct attempt *a, const struct sfab_frame *frame, struct sfab_err *err)
{
    struct sfab_verdict verdict;
    if (sfab_frame_get_verdict(frame->payload, frame->len_bytes, &verdict) != 0) {
        return not_syncfab(a, err);
    }
    return sfab_fail(err, verdict.code, "%s", verdict.text);
}

/* The answer to our proof, which is the server's own proof. */
static int hear_welcome(struct attempt *a, struct sfab_err *err)
{
    struct sfab_frame frame;
    int status = wait_frame(&a->boot->stream, a->deadline_ns, &frame);
    if (status == 1 && frame.type == SFAB_FRAME_WELCOME) {
        return 0;
    }
    if (status == 1 && frame.type == SFAB_FRAME_REFUSED) {
        return refused(a, &frame, err);
    }
    if (status == -ETIMEDOUT) {
        return no_answer(a, err);
    }
    if (status == 1 || status == -EPROTO || status == -EBADMSG) {
        return sfab_fail(
            err, SFAB_ERR_AUTH,
            "rank %u: who answers at %s does not know the job secret; see SFAB_ROOT and "
            "SFAB_SECRET",
            a->config->rank, a->boot->where);
    }
    if (++a->unproved < UNPROVED_ATTEMPTS) {
        snprintf(a->seen, sizeof a->seen, "it closed the connection after this rank's proof");
        return ONCE_MORE;
    }
    return wrong_secret(a, err);
}

/* ---- waiting for the others -------------------------------------------------------------- */

static int hear_joined(struct attempt *a, uint64_t deadline_ns, struct sfab_err *err)
{
    struct sfab_frame frame;
    int status = wait_frame(&a->boot->stream, deadline_ns, &frame);
    if (status == 1 && frame.type == SFAB_FRAME_JOINED) {
        return 0;
    }
    if (status == 1 && frame.type == SFAB_FRAME_REFUSED) {
        return refused(a, &frame, err);
    }
    if (status == -ETIMEDOUT) {
        return status; /* the caller has a better sentence */
    }
    return sfab_fail(
        err, -ECONNRESET,
        "rank %u lost the rendezvous at %s while it waited for the other ranks (%s): its "
        "process has ended, see the output there",
        a->config->rank, a->boot->where,
        status == 1 ? "unexpected frame" : sfab_errno_text(-status));
}

static int wait_for_all(struct attempt *a, struct sfab_err *err)
{
    int status = hear_joined(a, a->deadline_ns, err);
    if (status != -ETIMEDOUT || a->deadline_ns == UINT64_MAX) {
        return status;
    }
    if (err != NULL && err->code != 0) {
        return status; /* the server's timeout was first */
    }
    /* Too late: have the server say who is missing, to everybody. */
    uint8_t waited[8];
    size_t len = sfab_frame_put_u64(waited, sizeof waited, a->config->join_timeout_ns);
    status = sfab_stream_queue_copy(&a->boot->stream, SFAB_FRAME_GIVE_UP, waited, len);
    if (status == 0) {
        status = hear_joined(a, sfab_now_ns() + SFAB_VERDICT_WAIT_NS, err);
    }
    if (status == -ETIMEDOUT && (err == NULL || err->code == 0)) {
        char span[32];
        sfab_fail(
            err, status,
            "rank %u waited %s for the other ranks, and the rendezvous at %s does not say which "
            "are missing",
            a->config->rank, sfab_span_text(span, sizeof span, a->config->join_timeout_ns),
            a->boot->where);
    }
    return status;
}

/* ---- all of it --------------------------------------------------------------------------- */

static int try_once(struct attempt *a, struct sfab_err *err)
{
    int fd = -1;
    int status = connect_once(a, &fd, err);
    if (status != 0) {
        return status;
    }
    sfab_stream_init(&a->boot->stream, fd, SFAB_FRAME_TEXT_MAX + 16);
    status = prove(a, err);
    if (status == 0) {
        status = hear_welcome(a, err);
    }
    if (status != 0) {
        sfab_stream_end(&a->boot->stream);
    }
    return status;
}

static void pause_ns(uint64_t span_ns)
{
    struct timespec span = {.tv_sec = (time_t)(span_ns / 1000000000u),
                            .tv_nsec = (long)(span_ns % 1000000000u)};
    nanosleep(&span, NULL);
}

/* Until connected and welcome, refused, or out of time. */
static int try_until(struct attempt *a, struct sfab_err *err)
{
    uint64_t pause = RETRY_FIRST_NS;
    for (;;) {
        int status = try_once(a, err);
        if (status != ONCE_MORE) {
            return status;
        }
        uint64_t now_ns = sfab_now_ns();
        if (now_ns >= a->deadline_ns) {
            char span[32];
            return sfab_fail(
                err, -ETIMEDOUT,
                "rank %u could not reach the rendezvous at %s within %s: %s; see whether "
                "it is running and SFAB_ROOT is right",
                a->config->rank, a->boot->where,
                sfab_span_text(span, sizeof span, a->config->join_timeout_ns), a->seen);
        }
        /* Spread: ranks that start together must not knock together. */
        uint64_t jitter = (now_ns / 64 + a->config->rank * 7919u) % (pause / 2);
        uint64_t left = a->deadline_ns - now_ns;
        pause_ns(pause + jitter < left ? pause + jitter : left);
        pause = pause * 2 < RETRY_MAX_NS ? pause * 2 : RETRY_MAX_NS;
    }
}

static uint32_t server_frame_max(uint32_t size)
{
    uint64_t max = sfab_frame_gathered_bytes(size) + (uint64_t)size * SFAB_BOOT_BLOB_MAX;
    uint64_t least = SFAB_FRAME_TEXT_MAX + 16;
    return max > UINT32_MAX ? UINT32_MAX : (uint32_t)(max > least ? max : least);
}

int sfab_boot_enter(struct sfab_boot *boot, const struct sfab_boot_config *config,
                    struct sfab_err *err)
{
    struct attempt a = {.config = config, .boot = boot, .start_ns = sfab_now_ns()};
    struct sfab_err own = {
        0}; /* so that it starts empty, and is there even if the caller wants none */
    a.deadline_ns = sfab_deadline_ns(a.start_ns, config->join_timeout_ns);
    int status = try_until(&a, &own);
    if (status == 0) {
        boot->stream.in.max_bytes = server_frame_max(config->size);
        status = wait_for_all(&a, &own);
        if (status != 0) {
            sfab_stream_end(&boot->stream);
        }
    }
    if (status != 0) {
        sfab_fail(err, status, "%s", own.text);
    }
    return status;
}
