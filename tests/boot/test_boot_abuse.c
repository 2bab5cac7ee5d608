/* test_boot_abuse.c - strangers at the port: scans, garbage, crowds, forgery. The job does not
 * notice, and the log does not grow. */
#include "boot_harness.h"

#include "fabric/boot/net.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- a job that is busy meanwhile --------------------------------------------------------- */

static _Atomic bool enough;

/* Exchanges until told to end; status counts what went wrong, arg points to the number of rounds.
 */
static void act_busy(struct seat *seat)
{
    seat->status = 0;
    for (uint64_t round = 0;; round++) {
        struct sfab_boot_blob *table = NULL;
        /* All must leave in the same round: rank 0's word is in its blob. */
        uint8_t word[9] = {atomic_load(&enough)};
        memcpy(word + 1, &round, sizeof round);
        int status = sfab_boot_allgather(seat->boot, 1, NULL, seat->config.size, word, sizeof word,
                                         (int64_t)(30 * S), &table, &seat->err);
        if (status != 0) {
            seat->status = status;
            return;
        }
        for (uint32_t r = 0; r < seat->config.size; r++) {
            seat->status += table[r].len_bytes != 9 || memcmp(table[r].data + 1, &round, 8) != 0;
        }
        bool last = table[0].data[0] != 0;
        free(table);
        atomic_store((_Atomic uint64_t *)seat->arg, round);
        if (last) {
            return;
        }
    }
}

struct busy {
    struct job job;
    struct seat *seats;
    _Atomic uint64_t rounds[4];
    pthread_t thread;
};

static void *busy_thread(void *arg)
{
    struct busy *busy = arg;
    on_all(busy->seats, 4, act_busy);
    return NULL;
}

/* The job goes on: two more rounds. */
static void busy_moves(struct busy *busy)
{
    uint64_t before = atomic_load(&busy->rounds[0]);
    uint64_t deadline_ns = sfab_now_ns() + 30 * S;
    while (atomic_load(&busy->rounds[0]) < before + 2) {
        if (sfab_now_ns() > deadline_ns) {
            fail_msg("the job has stopped at round %llu", (unsigned long long)before);
        }
        usleep(1000);
    }
}

static void busy_start(struct busy *busy)
{
    atomic_store(&enough, false);
    memset(busy, 0, sizeof *busy);
    busy->seats = joined_job(&busy->job, 4);
    for (uint32_t r = 0; r < 4; r++) {
        busy->seats[r].arg = &busy->rounds[r];
    }
    assert_int_equal(pthread_create(&busy->thread, NULL, busy_thread, busy), 0);
    busy_moves(busy);
}

static void busy_end(struct busy *busy)
{
    busy_moves(busy);
    atomic_store(&enough, true);
    pthread_join(busy->thread, NULL);
    for (uint32_t r = 0; r < 4; r++) {
        if (busy->seats[r].status != 0) {
            fail_msg("rank %u: %d %s", r, busy->seats[r].status, busy->seats[r].err.text);
        }
    }
    finish_job(&busy->job, busy->seats);
}

/* ---- strangers --------------------------------------------------------------------------- */

static void port_scans(void **state)
{
    (void)state;
    struct busy busy;
    capture_start();
    busy_start(&busy);
    for (int i = 0; i < 200; i++) {
        close(stranger(busy.job.port));
    }
    usleep(100000);
    busy_end(&busy);
    char *log = capture_end();
    assert_int_equal(count_of(log, "\n"), 1); /* two hundred of them: one line */
    assert_non_null(strstr(log, "refused a connection from 127.0.0.1: it was closed before it said "
                                "who it is (a port scan?); the job is not affected"));
    free(log);
}

static uint32_t random_state = 12345;

static uint8_t random_byte(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (uint8_t)(random_state >> 24);
}

static void send_all(int fd, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);
        if (n <= 0) {
            return; /* refused: that is what is wanted */
        }
        bytes += n;
        len -= (size_t)n;
    }
}

static void garbage(void **state)
{
    (void)state;
    static uint8_t bytes[100000];
    struct busy busy;
    capture_start();
    busy_start(&busy);
    for (int i = 0; i < 20; i++) {
        for (size_t j = 0; j < sizeof bytes; j++) {
            bytes[j] = random_byte();
        }
        int fd = stranger(busy.job.port);
        send_all(fd, bytes, sizeof bytes);
        assert_true(is_closed_silently(fd, 5 * S));
        close(fd);
    }
    busy_end(&busy);
    char *log = capture_end();
    assert_int_equal(count_of(log, "it does not speak syncfab's protocol"), 1);
    free(log);
}

/* Things that begin like the protocol. */
static void half_right_beginnings(void **state)
{
    (void)state;
    uint8_t bytes[SFAB_FRAME_HEADER_BYTES + SFAB_FRAME_HELLO_MAX] = {0};
    struct sfab_hello hello = hello_of(0, 2);
    struct job job;
    capture_start();
    job_start(&job, 2, 20 * S);
    size_t len = sfab_frame_put_hello(bytes + 8, SFAB_FRAME_HELLO_MAX, &hello);
    static const uint16_t types[] = {SFAB_FRAME_HELLO, SFAB_FRAME_PROOF, SFAB_FRAME_GATHER,
                                     SFAB_FRAME_SEND};
    for (size_t i = 0; i < 5; i++) {
        int fd = stranger(job.port);
        uint32_t claimed = i == 0 ? (uint32_t)len - 1 : (uint32_t)len; /* first: cut short */
        uint16_t type = types[i < 4 ? i : 0];
        if (i == 4) {
            claimed = 0xffffff00u; /* a frame of 4 GiB */
        }
        sfab_frame_put_header(bytes, type, claimed);
        send_all(fd, bytes, 8 + len);
        assert_true(is_closed_silently(fd, 5 * S));
        close(fd);
    }
    /* A proof of the wrong length, after a good HELLO. */
    int fd = stranger(job.port);
    sfab_frame_put_header(bytes, SFAB_FRAME_HELLO, (uint32_t)len);
    send_all(fd, bytes, 8 + len);
    uint8_t challenge[8 + SFAB_FRAME_NONCE_BYTES];
    assert_int_equal(recv(fd, challenge, sizeof challenge, MSG_WAITALL), sizeof challenge);
    sfab_frame_put_header(bytes, SFAB_FRAME_PROOF, 31);
    send_all(fd, bytes, 8 + 31);
    assert_true(is_closed_silently(fd, 5 * S));
    close(fd);
    job_stop(&job);
    free(capture_end());
}

#define CROWD 200

static void crowd_does_not_keep_ranks_out(void **state)
{
    (void)state;
    int fds[CROWD];
    struct job job;
    capture_start();
    job_start(&job, 8, 30 * S);
    for (int i = 0; i < CROWD; i++) { /* all places three times over, each with half a header */
        fds[i] = stranger(job.port);
        send_all(fds[i], (const uint8_t *)"\0\0\0", 3);
    }
    struct seat *seats = seats_new(&job, 8);
    uint64_t start_ns = sfab_now_ns();
    on_all(seats, 8, act_join);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(seats[i].status, 0);
    }
    assert_true(sfab_now_ns() - start_ns < 15 * S);
    finish_job(&job, seats);
    for (int i = 0; i < CROWD; i++) {
        close(fds[i]);
    }
    char *log = capture_end();
    assert_int_equal(count_of(log, "it was slow to say who it is"), 1);
    assert_true(count_of(log, "\n") <= 4);
    free(log);
}

static void silent_strangers_are_timed_out(void **state)
{
    (void)state;
    struct job job;
    capture_start();
    job_start(&job, 2, 300 * MS); /* less than the usual 5 s: holds for strangers too */
    int fd = stranger(job.port);
    uint64_t start_ns = sfab_now_ns();
    assert_true(is_closed_silently(fd, 4 * S));
    assert_true(sfab_now_ns() - start_ns >= 250 * MS);
    close(fd);
    job_stop(&job);
    char *log = capture_end();
    assert_int_equal(count_of(log, "it did not say who it is in time"), 1);
    free(log);
}

/* ---- one that knows the secret, or listens in ---------------------------------------------- */

/* A hand-made rank 1 of a job of two, whose rank 0 is real. */
static struct seat *half_made_job(struct job *job, struct sfab_stream *stream)
{
    struct sfab_hello hello = hello_of(1, 2);
    struct sfab_frame frame;
    job_start(job, 2, 20 * S);
    struct seat *seat = seats_new(job, 1);
    assert_true(hand_made_proof(stranger(job->port), &hello, &job->secret, stream));
    assert_true(hand_made_frame(stream, &frame));
    assert_int_equal(frame.type, SFAB_FRAME_WELCOME);
    act_join(seat);
    assert_int_equal(seat->status, 0);
    assert_true(hand_made_frame(stream, &frame));
    assert_int_equal(frame.type, SFAB_FRAME_JOINED);
    return seat;
}

/* Queues a SEND to rank 0 and takes its bytes, which then are not sent. */
static size_t take_send_frame(struct sfab_stream *stream, uint8_t *bytes, size_t cap)
{
    int ends[2];
    int fd = stream->fd;
    uint8_t payload[16];
    size_t len = sfab_frame_put_message_head(payload, sizeof payload, 0, 2);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(sfab_stream_queue_copy(stream, SFAB_FRAME_SEND, payload, len), 0);
    stream->fd = ends[0];
    assert_int_equal(sfab_stream_flush(stream), 0);
    stream->fd = fd;
    ssize_t n = recv(ends[1], bytes, cap, 0);
    assert_int_equal(n, SFAB_FRAME_HEADER_BYTES + (ssize_t)len + SFAB_FRAME_MAC_BYTES);
    close(ends[0]);
    close(ends[1]);
    return (size_t)n;
}

static void replayed_frames_are_refused(void **state)
{
    (void)state;
    struct job job;
    struct sfab_stream stream;
    uint8_t bytes[128];
    capture_start();
    struct seat *seat = half_made_job(&job, &stream);
    size_t len = take_send_frame(&stream, bytes, sizeof bytes);
    send_all(stream.fd, bytes, len);
    assert_true(wait_messages(seat, 1, 10 * S));
    send_all(stream.fd, bytes, len); /* once more */
    assert_true(wait_gone(seat, 1, 10 * S));
    assert_int_equal(seat->gone[1], 2);
    assert_int_equal(seat->message_count, 1);
    sfab_stream_end(&stream);
    seats_free(seat, 1);
    job_stop(&job);
    char *log = capture_end();
    assert_int_equal(count_of(log, "rank 1 sent a frame that was damaged or forged"), 1);
    free(log);
}

static void changed_frames_are_refused(void **state)
{
    (void)state;
    struct job job;
    struct sfab_stream stream;
    uint8_t bytes[128];
    capture_start();
    struct seat *seat = half_made_job(&job, &stream);
    size_t len = take_send_frame(&stream, bytes, sizeof bytes);
    bytes[SFAB_FRAME_HEADER_BYTES + 5] ^= 1; /* another channel */
    send_all(stream.fd, bytes, len);
    assert_true(wait_gone(seat, 1, 10 * S));
    assert_int_equal(seat->message_count, 0);
    sfab_stream_end(&stream);
    seats_free(seat, 1);
    job_stop(&job);
    free(capture_end());
}

/* Well authenticated nonsense ends the connection of the one who sends it, nothing else. */
static void nonsense_of_a_member_is_its_own_end(void **state)
{
    (void)state;
    static const uint16_t types[] = {SFAB_FRAME_HELLO,    SFAB_FRAME_PROOF,  SFAB_FRAME_WELCOME,
                                     SFAB_FRAME_GATHERED, SFAB_FRAME_GONE,   SFAB_FRAME_MESSAGE,
                                     SFAB_FRAME_GATHER,   SFAB_FRAME_SEND,   SFAB_FRAME_CANCEL,
                                     SFAB_FRAME_LEAVE,    SFAB_FRAME_GIVE_UP};
    capture_start();
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct job job;
        struct sfab_stream stream;
        uint8_t nonsense[13];
        memset(nonsense, 0xee, sizeof nonsense);
        struct seat *seat = half_made_job(&job, &stream);
        assert_int_equal(sfab_stream_queue_copy(&stream, types[i], nonsense, sizeof nonsense), 0);
        assert_int_equal(sfab_stream_flush(&stream), 0);
        assert_true(wait_gone(seat, 1, 10 * S));
        assert_int_equal(seat->gone[1], 2);
        assert_int_equal(seat->lost_count, 0);
        sfab_stream_end(&stream);
        seats_free(seat, 1);
        job_stop(&job);
    }
    free(capture_end());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        boot_test(port_scans),
        boot_test(garbage),
        boot_test(half_right_beginnings),
        boot_test(crowd_does_not_keep_ranks_out),
        boot_test(silent_strangers_are_timed_out),
        boot_test(replayed_frames_are_refused),
        boot_test(changed_frames_are_refused),
        boot_test(nonsense_of_a_member_is_its_own_end),
    };
    return cmocka_run_group_tests_name("bootstrap: abuse", tests, NULL, NULL);
}
