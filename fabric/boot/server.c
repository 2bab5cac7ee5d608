/* server.c - the rendezvous server: start, stop, drain, and its one loop.
 *
 * One thread, one poll(). A round reads what has come, handles it, tells the departures, writes
 * what the sockets take, and removes what is dead; nothing in it blocks, so a slow or hostile peer
 * costs the others nothing. */
#include "fabric/boot/forked.h"
#include "fabric/boot/net.h"
#include "fabric/boot/server_impl.h"
#include "fabric/log.h"

#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#define FILES_SPARE 64 /* descriptors for everything but ranks and strangers */

/* ---- the loop ---------------------------------------------------------------------------- */

static short wanted_events(const struct sfab_conn *conn)
{
    short events = conn->paused ? POLLRDHUP : POLLIN;
    if (sfab_stream_pending(&conn->stream)) {
        events |= POLLOUT;
    }
    return events;
}

static uint64_t next_deadline(const struct sfab_boot_server *server, bool listening,
                              uint64_t now_ns)
{
    uint64_t next = server->job == SFAB_JOB_JOINING ? server->join_deadline_ns : UINT64_MAX;
    uint64_t failures_ns = sfab_fail_deadline(server);
    next = failures_ns < next ? failures_ns : next;
    for (size_t i = 0; i < server->conn_count; i++) {
        if (server->conns[i]->deadline_ns < next) {
            next = server->conns[i]->deadline_ns;
        }
    }
    /* Waiting for a place: look again when the oldest stranger's grace may be over. */
    uint64_t again_ns = now_ns + SFAB_OPEN_GRACE_NS / 4;
    return !listening && again_ns < next ? again_ns : next;
}

static void serve_events(struct sfab_boot_server *server, size_t polled)
{
    for (size_t i = 0; i < polled; i++) {
        struct sfab_conn *conn = server->conns[i];
        short seen = server->pollfds[i + 2].revents;
        if (conn->doomed) {
            continue;
        }
        if (conn->paused) {
            if ((seen & (POLLRDHUP | POLLHUP | POLLERR)) != 0) {
                sfab_conn_doom(conn);
            }
        } else if ((seen & ~POLLOUT) != 0) {
            sfab_conn_serve(server, conn);
        }
    }
}

/* Goes on with those whose receiver has caught up, or is gone. */
static void resume_paused(struct sfab_boot_server *server)
{
    for (size_t i = 0; i < server->conn_count; i++) {
        struct sfab_conn *conn = server->conns[i];
        if (conn->paused && !conn->doomed && !sfab_route_congested(server, conn->paused_on)) {
            conn->paused = false;
            sfab_conn_frames(server, conn);
        }
    }
}

/* Ranks that drain still waits for: those that are in; and once nobody is, those to which something
 * has still to be written. */
static void count_busy(struct sfab_boot_server *server)
{
    uint32_t in = 0;
    uint32_t writing = 0;
    for (size_t i = 0; i < server->conn_count; i++) {
        const struct sfab_conn *conn = server->conns[i];
        if (conn->stage == SFAB_CONN_MEMBER) {
            in += server->ranks[conn->rank].state == SFAB_RANK_IN ? 1 : 0;
            writing += sfab_stream_pending(&conn->stream) ? 1 : 0;
        } else if (conn->stage == SFAB_CONN_CLOSING) {
            writing++;
        }
    }
    pthread_mutex_lock(&server->lock);
    server->busy = in + writing;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

static void one_round(struct sfab_boot_server *server)
{
    uint64_t now_ns = sfab_now_ns();
    bool listening = sfab_conns_room(server, now_ns);
    size_t polled = server->conn_count;
    server->pollfds[0] = (struct pollfd){.fd = server->wake_fd, .events = POLLIN};
    server->pollfds[1] =
        (struct pollfd){.fd = listening ? server->listen_fd : -1, .events = POLLIN};
    for (size_t i = 0; i < polled; i++) {
        server->pollfds[i + 2] = (struct pollfd){.fd = server->conns[i]->stream.fd,
                                                 .events = wanted_events(server->conns[i])};
    }
    int ms = sfab_poll_ms(now_ns, next_deadline(server, listening, now_ns));
    if (poll(server->pollfds, polled + 2, ms) < 0) {
        return; /* EINTR cannot be (all signals are blocked); out of memory: try again */
    }
    if (server->pollfds[0].revents != 0) {
        uint64_t count;
        ssize_t n = read(server->wake_fd, &count, sizeof count);
        (void)n; /* nothing there is fine */
    }
    serve_events(server, polled);
    now_ns = sfab_now_ns();
    if (server->pollfds[1].revents != 0) {
        sfab_conns_accept(server, now_ns);
    }
    sfab_conns_expire(server, now_ns);
    sfab_join_expire(server, now_ns);
    sfab_fail_work(server, now_ns);
    do {
        resume_paused(server);
        sfab_route_tell_gone(server);
        count_busy(server); /* before anybody can learn what it counts */
        sfab_conns_flush(server);
    } while (sfab_conns_sweep(server));
    count_busy(server);
}

static void *serve(void *arg)
{
    struct sfab_boot_server *server = arg;
    sfab_log_set_name("rendezvous");
    while (!atomic_load_explicit(&server->stop, memory_order_acquire)) {
        one_round(server);
    }
    return NULL;
}

/* ---- starting ---------------------------------------------------------------------------- */

/* Room for one descriptor a rank: raises the soft limit if the hard one allows. */
static int ensure_files(uint32_t size, struct sfab_err *err)
{
    struct rlimit limit;
    rlim_t need = (rlim_t)size + SFAB_OPEN_MAX + FILES_SPARE;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= need) {
        return 0;
    }
    rlim_t found = limit.rlim_cur;
    limit.rlim_cur = need;
    if (need > limit.rlim_max || setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return sfab_fail(err, -EMFILE,
                         "the rendezvous of %u ranks needs %llu open files, and the limit is %llu; "
                         "raise it (ulimit -n)",
                         size, (unsigned long long)need, (unsigned long long)found);
    }
    return 0;
}

static int listen_at(const struct addrinfo *at, int *out)
{
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -errno;
    }
    /* A port whose last owner has just gone is free: without this it is not for a minute. */
    int one = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, at->ai_addr, at->ai_addrlen) != 0 || listen(fd, SOMAXCONN) != 0) {
        int status = -errno;
        close(fd);
        return status;
    }
    *out = fd;
    return 0;
}

static int open_listener(const struct sfab_boot_server_config *config, int *out,
                         struct sfab_err *err)
{
    char port[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    snprintf(port, sizeof port, "%u", config->port);
    int trouble = getaddrinfo(config->listen_host, port, &hints, &found);
    if (trouble != 0) {
        return sfab_fail(err, -EINVAL, "cannot listen on '%s': %s", config->listen_host,
                         trouble == EAI_SYSTEM ? sfab_errno_text(errno) : gai_strerror(trouble));
    }
    int status = -EINVAL;
    for (const struct addrinfo *at = found; at != NULL && status != 0; at = at->ai_next) {
        status = listen_at(at, out);
    }
    freeaddrinfo(found);
    if (status != 0) {
        return sfab_fail(err, status, "cannot listen on %s port %u: %s", config->listen_host,
                         config->port, sfab_errno_text(-status));
    }
    return 0;
}

static int port_of(int fd, uint16_t *port)
{
    struct sockaddr_storage at;
    socklen_t at_bytes = sizeof at;
    char service[NI_MAXSERV];
    if (getsockname(fd, (struct sockaddr *)&at, &at_bytes) != 0 ||
        getnameinfo((struct sockaddr *)&at, at_bytes, NULL, 0, service, sizeof service,
                    NI_NUMERICSERV) != 0) {
        return -EINVAL;
    }
    *port = (uint16_t)strtoul(service, NULL, 10);
    return 0;
}

static void server_free(struct sfab_boot_server *server)
{
    for (size_t i = 0; i < server->conn_count; i++) {
        sfab_conn_free(server, server->conns[i]);
    }
    sfab_gather_end(server);
    sfab_surveys_end(&server->surveys);
    sfab_fail_end(server);
    if (server->listen_fd >= 0) {
        sfab_forked_forget(server->listen_fd);
        close(server->listen_fd);
    }
    if (server->wake_fd >= 0) {
        close(server->wake_fd);
    }
    free(server->conns);
    free(server->pollfds);
    free(server->ranks);
    free(server->gone);
    pthread_cond_destroy(&server->changed);
    pthread_mutex_destroy(&server->lock);
    sfab_auth_wipe(&server->config.secret, sizeof server->config.secret);
    free(server);
}

static struct sfab_boot_server *server_new(const struct sfab_boot_server_config *config)
{
    struct sfab_boot_server *server = calloc(1, sizeof *server);
    if (server != NULL) {
        atomic_init(&server->first_dead, -1);
    }
    if (server == NULL) {
        return NULL;
    }
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&server->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&server->lock, NULL);
    server->config = *config;
    server->config.listen_host = NULL;
    server->listen_fd = -1;
    server->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    server->ranks = calloc(config->size, sizeof(*server->ranks));
    server->gone = calloc(config->size, sizeof(*server->gone));
    server->pollfds = calloc(2, sizeof(*server->pollfds));
    server->start_ns = sfab_now_ns();
    server->join_deadline_ns = sfab_deadline_ns(server->start_ns, config->join_timeout_ns);
    server->hearing_ends_ns = UINT64_MAX;
    int surveys = sfab_surveys_begin(&server->surveys, config->size);
    if (surveys != 0 || server->wake_fd < 0 || server->ranks == NULL || server->gone == NULL ||
        server->pollfds == NULL) {
        server_free(server);
        return NULL;
    }
    return server;
}

/* Signals are the program's affair: none may be delivered on a thread of ours. */
static int start_thread(struct sfab_boot_server *server)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int trouble = pthread_create(&server->thread, NULL, serve, server);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -trouble;
}

static int check_config(const struct sfab_boot_server_config *config, struct sfab_err *err)
{
    if (config->size == 0 || config->listen_host == NULL) {
        return sfab_fail(err, -EINVAL, "a rendezvous needs an address and at least one rank");
    }
    if (config->secret.len_bytes == 0 || config->secret.len_bytes > SFAB_BOOT_SECRET_MAX) {
        return sfab_fail(
            err, SFAB_ERR_AUTH,
            "the rendezvous has no job secret (or one above %d bytes); set SFAB_SECRET "
            "or SFAB_SECRET_FILE",
            SFAB_BOOT_SECRET_MAX);
    }
    return ensure_files(config->size, err);
}

int sfab_boot_server_start(const struct sfab_boot_server_config *config,
                           struct sfab_boot_server **out, uint16_t *port, struct sfab_err *err)
{
    int status = check_config(config, err);
    if (status != 0) {
        return status;
    }
    struct sfab_boot_server *server = server_new(config);
    if (server == NULL) {
        return sfab_fail(err, -ENOMEM, "no memory or descriptors for the rendezvous of %u ranks",
                         config->size);
    }
    uint16_t bound = 0;
    status = open_listener(config, &server->listen_fd, err);
    sfab_forked_close(server->listen_fd);
    if (status == 0 && port_of(server->listen_fd, &bound) != 0) {
        status = sfab_fail(err, -EINVAL, "cannot tell the port the rendezvous listens on");
    }
    if (status == 0) {
        status = start_thread(server);
        if (status != 0) {
            sfab_fail(err, status, "cannot start the rendezvous' thread: %s",
                      sfab_errno_text(-status));
        }
    }
    if (status != 0) {
        server_free(server);
        return status;
    }
    *out = server;
    *port = bound;
    return 0;
}

/* ---- ending ------------------------------------------------------------------------------ */

int sfab_boot_server_drain(struct sfab_boot_server *server, int64_t timeout_ns)
{
    uint64_t span_ns = timeout_ns < 0 ? UINT64_MAX : (uint64_t)timeout_ns;
    uint64_t deadline_ns = sfab_deadline_ns(sfab_now_ns(), span_ns);
    int status = 0;
    pthread_mutex_lock(&server->lock);
    while (server->busy > 0 && status == 0) {
        if (deadline_ns == UINT64_MAX) {
            pthread_cond_wait(&server->changed, &server->lock);
        } else {
            struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                                     .tv_nsec = (long)(deadline_ns % 1000000000u)};
            status = -pthread_cond_timedwait(&server->changed, &server->lock, &until);
        }
    }
    status = server->busy > 0 ? -ETIMEDOUT : 0;
    pthread_mutex_unlock(&server->lock);
    return status;
}

int64_t sfab_boot_server_first_dead(struct sfab_boot_server *server)
{
    return server != NULL ? atomic_load_explicit(&server->first_dead, memory_order_relaxed) : -1;
}

void sfab_boot_server_stop(struct sfab_boot_server *server)
{
    if (server == NULL) {
        return;
    }
    atomic_store_explicit(&server->stop, true, memory_order_release);
    uint64_t one = 1;
    ssize_t n = write(server->wake_fd, &one, sizeof one);
    (void)n; /* a full counter wakes as well */
    pthread_join(server->thread, NULL);
    server_free(server);
}
