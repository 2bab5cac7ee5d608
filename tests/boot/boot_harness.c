/* boot_harness.c - jobs whose ranks are threads of one process, and strangers who speak raw TCP. */
#include "boot_harness.h"

#include "fabric/boot/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- jobs -------------------------------------------------------------------------------- */

struct sfab_boot_secret secret_of(const char *text)
{
    struct sfab_boot_secret secret = {.len_bytes = strlen(text)};
    memcpy(secret.bytes, text, secret.len_bytes);
    return secret;
}

void job_start(struct job *job, uint32_t size, uint64_t join_timeout_ns)
{
    *job = (struct job){.size = size, .secret = secret_of("open sesame")};
    struct sfab_boot_server_config config = {.listen_host = "127.0.0.1",
                                             .size = size,
                                             .secret = job->secret,
                                             .join_timeout_ns = join_timeout_ns};
    struct sfab_err err = {0};
    int status = sfab_boot_server_start(&config, &job->server, &job->port, &err);
    if (status != 0) {
        fail_msg("server: %s", err.text);
    }
}

void job_stop(struct job *job)
{
    sfab_boot_server_stop(job->server);
    job->server = NULL;
}

/* ---- seats ------------------------------------------------------------------------------- */

static void on_message(void *arg, uint32_t src, uint16_t channel, const uint8_t *data, size_t len)
{
    struct seat *seat = arg;
    struct told told = {.src = src, .channel = channel, .len_bytes = (uint16_t)len};
    memcpy(&told.number, data, len < 4 ? len : 4);
    if (seat->slow_us > 0) {
        usleep(seat->slow_us);
    }
    if (seat->echo && channel % 2 == 0) {
        sfab_boot_send(seat->boot, src, (uint16_t)(channel + 1), data, len);
    }
    pthread_mutex_lock(&seat->lock);
    if (seat->message_count < MESSAGES_MAX) {
        seat->messages[seat->message_count++] = told;
    }
    pthread_mutex_unlock(&seat->lock);
}

static void on_gone(void *arg, uint32_t rank, enum sfab_boot_gone how, uint64_t goodbye,
                    const char *why)
{
    (void)why;
    struct seat *seat = arg;
    pthread_mutex_lock(&seat->lock);
    seat->gone[rank] = how == SFAB_BOOT_LEFT ? 1 : 2;
    seat->goodbye[rank] = goodbye;
    seat->gone_count++;
    pthread_mutex_unlock(&seat->lock);
}

static void on_lost(void *arg, const char *text)
{
    struct seat *seat = arg;
    (void)text;
    pthread_mutex_lock(&seat->lock);
    seat->lost_count++;
    pthread_mutex_unlock(&seat->lock);
}

struct seat *seats_new(const struct job *job, uint32_t count)
{
    struct seat *seats = calloc(count, sizeof *seats);
    assert_non_null(seats);
    for (uint32_t i = 0; i < count; i++) {
        seats[i].config = (struct sfab_boot_config){.rank = i,
                                                    .size = job->size,
                                                    .host = "127.0.0.1",
                                                    .port = job->port,
                                                    .own_host = "hostA",
                                                    .secret = job->secret,
                                                    .join_timeout_ns = 20 * S};
        seats[i].messages = malloc(MESSAGES_MAX * sizeof(*seats[i].messages));
        assert_non_null(seats[i].messages);
        pthread_mutex_init(&seats[i].lock, NULL);
    }
    return seats;
}

void seats_free(struct seat *seats, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        sfab_boot_close(seats[i].boot);
        free(seats[i].messages);
        free(seats[i].table);
        pthread_mutex_destroy(&seats[i].lock);
    }
    free(seats);
}

struct act_on {
    void (*act)(struct seat *);
    struct seat *seat;
};

static void *run_act(void *arg)
{
    struct act_on *on = arg;
    on->act(on->seat);
    return NULL;
}

void on_all(struct seat *seats, uint32_t count, void (*act)(struct seat *))
{
    pthread_t threads[SEATS_MAX];
    struct act_on on[SEATS_MAX];
    assert_true(count <= SEATS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        on[i] = (struct act_on){act, &seats[i]};
        assert_int_equal(pthread_create(&threads[i], NULL, run_act, &on[i]), 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
}

void act_join(struct seat *seat)
{
    struct sfab_boot_events events = {
        .message = on_message, .gone = on_gone, .lost = on_lost, .arg = seat};
    seat->status = sfab_boot_join(&seat->config, &events, &seat->boot, &seat->err);
}

void act_leave(struct seat *seat)
{
    seat->status =
        sfab_boot_leave(seat->boot, 1000 + seat->config.rank, (int64_t)(10 * S), &seat->err);
}

void act_close(struct seat *seat)
{
    sfab_boot_close(seat->boot);
    seat->boot = NULL;
}

static void must_all_work(const struct seat *seats, uint32_t count, const char *what)
{
    for (uint32_t i = 0; i < count; i++) {
        if (seats[i].status != 0) {
            fail_msg("%s of rank %u: %d %s", what, seats[i].config.rank, seats[i].status,
                     seats[i].err.text);
        }
    }
}

struct seat *joined_job(struct job *job, uint32_t size)
{
    job_start(job, size, 20 * S);
    struct seat *seats = seats_new(job, size);
    on_all(seats, size, act_join);
    must_all_work(seats, size, "join");
    return seats;
}

void finish_job(struct job *job, struct seat *seats)
{
    uint32_t size = job->size;
    on_all(seats, size, act_leave);
    must_all_work(seats, size, "leave");
    for (uint32_t r = 0; r < size; r++) {
        assert_int_equal(seats[r].lost_count, 0);
        for (uint32_t other = 0; other < size; other++) {
            assert_int_equal(seats[r].gone[other], r == other ? 0 : 1);
            assert_int_equal(seats[r].goodbye[other], r == other ? 0 : 1000 + other);
        }
    }
    on_all(seats, size, act_close);
    assert_int_equal(sfab_boot_server_drain(job->server, (int64_t)(10 * S)), 0);
    seats_free(seats, size);
    job_stop(job);
}

/* ---- waiting ----------------------------------------------------------------------------- */

static uint32_t locked_value(struct seat *seat, const uint32_t *value)
{
    pthread_mutex_lock(&seat->lock);
    uint32_t copy = *value;
    pthread_mutex_unlock(&seat->lock);
    return copy;
}

static bool wait_value(struct seat *seat, const uint32_t *value, uint32_t least,
                       uint64_t timeout_ns)
{
    uint64_t deadline_ns = sfab_now_ns() + timeout_ns;
    while (locked_value(seat, value) < least) {
        if (sfab_now_ns() > deadline_ns) {
            return false;
        }
        usleep(1000);
    }
    return true;
}

uint32_t messages_of(struct seat *seat)
{
    return locked_value(seat, &seat->message_count);
}

bool wait_messages(struct seat *seat, uint32_t count, uint64_t timeout_ns)
{
    return wait_value(seat, &seat->message_count, count, timeout_ns);
}

bool wait_gone(struct seat *seat, uint32_t count, uint64_t timeout_ns)
{
    return wait_value(seat, &seat->gone_count, count, timeout_ns);
}

bool wait_lost(struct seat *seat, uint32_t count, uint64_t timeout_ns)
{
    return wait_value(seat, &seat->lost_count, count, timeout_ns);
}

/* ---- what goes to stderr ----------------------------------------------------------------- */

static int kept_stderr = -1;
static FILE *captured;

void capture_start(void)
{
    fflush(stderr);
    captured = tmpfile();
    assert_non_null(captured);
    kept_stderr = dup(STDERR_FILENO);
    assert_true(dup2(fileno(captured), STDERR_FILENO) >= 0);
}

char *capture_end(void)
{
    fflush(stderr);
    dup2(kept_stderr, STDERR_FILENO);
    close(kept_stderr);
    char *text = calloc(1, 65536);
    assert_non_null(text);
    rewind(captured);
    size_t n = fread(text, 1, 65535, captured);
    text[n] = '\0';
    fclose(captured);
    captured = NULL;
    return text;
}

int capture_teardown(void **state)
{
    (void)state;
    if (captured != NULL) {
        char *text = capture_end();
        fputs(text, stderr);
        free(text);
    }
    return 0;
}

unsigned count_of(const char *text, const char *part)
{
    unsigned count = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        count++;
    }
    return count;
}

/* ---- strangers --------------------------------------------------------------------------- */

int stranger(uint16_t port)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

bool is_closed_silently(int fd, uint64_t timeout_ns)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    uint8_t byte;
    if (poll(&p, 1, (int)(timeout_ns / MS)) <= 0) {
        return false;
    }
    ssize_t n = recv(fd, &byte, 1, 0);
    return n == 0 || (n < 0 && errno == ECONNRESET);
}

struct sfab_hello hello_of(uint32_t rank, uint32_t size)
{
    struct sfab_hello hello = {.wire_version = SFAB_WIRE_VERSION, .rank = rank, .size = size};
    snprintf(hello.version, sizeof hello.version, "%s", sfab_version());
    strcpy(hello.host, "hostB");
    assert_int_equal(sfab_auth_nonce(hello.nonce), 0);
    return hello;
}

bool hand_made_frame(struct sfab_stream *stream, struct sfab_frame *frame)
{
    uint64_t deadline_ns = sfab_now_ns() + 5 * S;
    for (;;) {
        int status = sfab_stream_next(stream, frame);
        if (status != 0) {
            return status == 1;
        }
        struct pollfd p = {.fd = stream->fd, .events = POLLIN};
        if (poll(&p, 1, sfab_poll_ms(sfab_now_ns(), deadline_ns)) <= 0 ||
            sfab_stream_fill(stream) <= 0) {
            return false;
        }
    }
}

bool hand_made_proof(int fd, const struct sfab_hello *hello, const struct sfab_boot_secret *secret,
                     struct sfab_stream *stream)
{
    uint8_t payload[SFAB_FRAME_HELLO_MAX];
    uint8_t nonce[SFAB_FRAME_NONCE_BYTES];
    struct sfab_auth_keys keys;
    struct sfab_frame frame;
    sfab_stream_init(stream, fd, 65536);
    size_t len = sfab_frame_put_hello(payload, sizeof payload, hello);
    assert_int_equal(sfab_stream_queue_copy(stream, SFAB_FRAME_HELLO, payload, len), 0);
    assert_int_equal(sfab_stream_flush(stream), 0);
    if (!hand_made_frame(stream, &frame)) {
        return false;
    }
    assert_int_equal(frame.type, SFAB_FRAME_CHALLENGE);
    assert_int_equal(sfab_frame_get_bytes32(frame.payload, frame.len_bytes, nonce), 0);
    assert_int_equal(sfab_auth_derive(secret, payload, len, nonce, &keys), 0);
    assert_int_equal(sfab_stream_queue_copy(stream, SFAB_FRAME_PROOF, keys.proof, 32), 0);
    assert_int_equal(sfab_stream_secure_out(stream, keys.session, SFAB_AUTH_TO_SERVER), 0);
    assert_int_equal(sfab_stream_secure_in(stream, keys.session, SFAB_AUTH_TO_CLIENT), 0);
    return sfab_stream_flush(stream) == 0;
}
