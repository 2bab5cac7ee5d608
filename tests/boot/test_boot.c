/* test_boot.c - joining: who comes in, who does not and what they are told. */
#include "boot_harness.h"

#include "fabric/boot/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void assert_says(const struct seat *seat, int code, const char *part)
{
    if (seat->status != code || seat->err.code != code || strstr(seat->err.text, part) == NULL) {
        fail_msg("rank %u: wanted %d and '%s', got %d and '%s'", seat->config.rank, code, part,
                 seat->status, seat->err.text);
    }
    assert_null(seat->boot);
}

static void *join_thread(void *seat)
{
    act_join(seat);
    return NULL;
}

/* ---- joining ----------------------------------------------------------------------------- */

static void jobs_of_many_sizes(void **state)
{
    static const uint32_t sizes[] = {1, 2, 16, 64};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct job job;
        struct seat *seats = joined_job(&job, sizes[i]);
        assert_int_equal(sfab_boot_server_drain(job.server, (int64_t)(10 * MS)), -ETIMEDOUT);
        finish_job(&job, seats);
    }
}

static void missing_ranks_are_named_by_the_server(void **state)
{
    (void)state;
    struct job job;
    job_start(&job, 10, 2 * S);
    struct seat *seats = seats_new(&job, 6);
    static const uint32_t here[] = {0, 1, 2, 4, 5, 6};
    for (size_t i = 0; i < 6; i++) {
        seats[i].config.rank = here[i];
    }
    on_all(seats, 6, act_join);
    for (size_t i = 0; i < 6; i++) {
        assert_says(&seats[i], -ETIMEDOUT, "ranks 3, 7-9 of 10 have not joined");
    }
    /* Who comes later hears the same, at once. */
    seats[0].config.rank = 8;
    act_join(&seats[0]);
    assert_says(&seats[0], -ETIMEDOUT, "ranks 3, 7-9 of 10 have not joined");
    assert_int_equal(sfab_boot_server_drain(job.server, (int64_t)(8 * S)), 0);
    seats_free(seats, 6);
    job_stop(&job);
}

static void missing_rank_is_named_when_a_rank_gives_up(void **state)
{
    (void)state;
    struct job job;
    job_start(&job, 3, UINT64_MAX);
    struct seat *seats = seats_new(&job, 2);
    seats[0].config.join_timeout_ns = 2 * S; /* the other one waits longer, and need not */
    on_all(seats, 2, act_join);
    assert_says(&seats[0], -ETIMEDOUT, "rank 2 of 3 has not joined (rank 0 (hostA) waited 2 s)");
    assert_says(&seats[1], -ETIMEDOUT, "rank 2 of 3 has not joined (rank 0 (hostA) waited 2 s)");
    seats_free(seats, 2);
    job_stop(&job);
}

static void death_at_the_start_is_told(void **state)
{
    (void)state;
    struct job job;
    job_start(&job, 3, 20 * S);
    struct seat *seats = seats_new(&job, 1);
    struct sfab_hello hello = hello_of(2, 3);
    struct sfab_stream stream;
    struct sfab_frame frame;
    assert_true(hand_made_proof(stranger(job.port), &hello, &job.secret, &stream));
    assert_true(hand_made_frame(&stream, &frame));
    assert_int_equal(frame.type, SFAB_FRAME_WELCOME);
    sfab_stream_end(&stream);
    act_join(&seats[0]); /* before or after the server noticed: the same */
    assert_says(&seats[0], SFAB_ERR_PEER_DEAD, "rank 2 (hostB) died while the job was starting");
    seats_free(seats, 1);
    job_stop(&job);
}

static void taken_rank_is_refused(void **state)
{
    (void)state;
    struct job job;
    capture_start();
    job_start(&job, 2, 20 * S);
    struct seat *seats = seats_new(&job, 3);
    struct seat *twin = &seats[2];
    pthread_t first;
    twin->config.rank = 0;
    twin->config.own_host = "hostB";
    assert_int_equal(pthread_create(&first, NULL, join_thread, &seats[0]), 0);
    usleep(200000);
    act_join(twin);
    assert_says(twin, -EEXIST,
                "on hostA joined as rank 0 before (it is running now), and one on hostB");
    act_join(&seats[1]); /* the job starts all the same */
    pthread_join(first, NULL);
    assert_int_equal(seats[0].status, 0);
    assert_int_equal(seats[1].status, 0);
    act_join(twin);
    assert_says(twin, -EEXIST, "rank 0 is taken");
    on_all(seats, 2, act_leave);
    act_join(twin);
    assert_says(twin, -EEXIST, "it is finished now");
    seats_free(seats, 3);
    job_stop(&job);
    char *log = capture_end();
    assert_int_equal(count_of(log, "refused a connection"), 1);
    free(log);
}

/* ---- settings that do not fit ------------------------------------------------------------ */

static void wrong_size_is_refused(void **state)
{
    (void)state;
    struct job job;
    capture_start();
    job_start(&job, 2, 2 * S);
    struct seat *seats = seats_new(&job, 2);
    seats[1].config.size = 3;
    on_all(seats, 2, act_join);
    assert_says(&seats[1], SFAB_ERR_CONFIG,
                "rank 1 on hostA was started for a job of 3 ranks, the rendezvous for one of 2");
    /* ... and the rank that waits for it learns of that. */
    assert_says(&seats[0], -ETIMEDOUT, "rank 1 of 2 has not joined");
    assert_non_null(strstr(seats[0].err.text, "(refused: rank 1 on hostA was started for"));
    seats_free(seats, 2);
    job_stop(&job);
    char *log = capture_end();
    assert_int_equal(count_of(log, "was started for a job of 3 ranks"), 1);
    free(log);
}

/* What a hand-made client with this hello is told. */
static struct sfab_verdict verdict_for(const struct job *job, const struct sfab_hello *hello)
{
    struct sfab_stream stream;
    struct sfab_frame frame;
    struct sfab_verdict verdict;
    assert_true(hand_made_proof(stranger(job->port), hello, &job->secret, &stream));
    assert_true(hand_made_frame(&stream, &frame));
    assert_int_equal(frame.type, SFAB_FRAME_REFUSED);
    assert_int_equal(sfab_frame_get_verdict(frame.payload, frame.len_bytes, &verdict), 0);
    assert_true(is_closed_silently(stream.fd, 5 * S));
    sfab_stream_end(&stream);
    return verdict;
}

static void other_versions_are_refused(void **state)
{
    (void)state;
    struct job job;
    capture_start();
    job_start(&job, 2, 20 * S);
    struct sfab_hello hello = hello_of(1, 2);
    strcpy(hello.version, "9.8.7");
    struct sfab_verdict verdict = verdict_for(&job, &hello);
    assert_int_equal(verdict.code, SFAB_ERR_VERSION);
    assert_non_null(strstr(verdict.text, "rank 1 on hostB runs syncfab 9.8.7"));
    assert_non_null(strstr(verdict.text, sfab_version()));
    hello = hello_of(1, 2);
    hello.wire_version = 77;
    verdict = verdict_for(&job, &hello);
    assert_int_equal(verdict.code, SFAB_ERR_VERSION);
    assert_non_null(strstr(verdict.text, "(wire version 77), the rendezvous runs"));
    hello = hello_of(2, 2);
    verdict = verdict_for(&job, &hello);
    assert_int_equal(verdict.code, SFAB_ERR_CONFIG);
    assert_non_null(strstr(verdict.text, "rank 2 on hostB is not in a job of 2 ranks"));
    job_stop(&job);
    free(capture_end());
}

static void bad_settings_fail_at_once(void **state)
{
    (void)state;
    struct job job;
    job_start(&job, 2, 20 * S);
    struct seat *seats = seats_new(&job, 1);
    seats->config.rank = 2;
    act_join(seats);
    assert_says(seats, SFAB_ERR_CONFIG, "rank 2 is not in a job of 2 ranks");
    seats->config.size = 0;
    seats->config.rank = 0;
    act_join(seats);
    assert_says(seats, SFAB_ERR_CONFIG, "rank 0 is not in a job of 0 ranks");
    seats->config.size = 2;
    seats->config.secret.len_bytes = 0;
    act_join(seats);
    assert_says(seats, SFAB_ERR_AUTH, "has no job secret");
    seats->config.secret = job.secret;
    seats->config.host = NULL;
    act_join(seats);
    assert_says(seats, SFAB_ERR_CONFIG, "SFAB_ROOT");
    seats_free(seats, 1);
    job_stop(&job);
}

static void bad_servers_fail_at_once(void **state)
{
    (void)state;
    struct job job;
    job_start(&job, 2, 20 * S);
    struct sfab_boot_server *server = NULL;
    struct sfab_err err = {0};
    uint16_t port = 0;
    struct sfab_boot_server_config config = {
        .listen_host = "127.0.0.1", .port = job.port, .size = 2, .secret = job.secret};
    assert_int_equal(sfab_boot_server_start(&config, &server, &port, &err), -EADDRINUSE);
    assert_non_null(strstr(err.text, "127.0.0.1"));
    config.port = 0;
    config.listen_host = "203.0.113.7"; /* not ours */
    assert_int_equal(sfab_boot_server_start(&config, &server, &port, &err), -EADDRNOTAVAIL);
    config.listen_host = "127.0.0.1";
    config.size = 0;
    assert_int_equal(sfab_boot_server_start(&config, &server, &port, &err), -EINVAL);
    config.size = 100000000;
    assert_int_equal(sfab_boot_server_start(&config, &server, &port, &err), -EMFILE);
    config.size = 2;
    config.secret.len_bytes = 0;
    assert_int_equal(sfab_boot_server_start(&config, &server, &port, &err), SFAB_ERR_AUTH);
    assert_null(server);
    job_stop(&job);
}

/* ---- secrets ----------------------------------------------------------------------------- */

static void wrong_secret_is_refused(void **state)
{
    (void)state;
    struct job job;
    capture_start();
    job_start(&job, 2, 20 * S);
    struct seat *seats = seats_new(&job, 3);
    seats[2].config.rank = 1;
    seats[2].config.secret = secret_of("open barley");
    act_join(&seats[2]);
    assert_says(&seats[2], SFAB_ERR_AUTH, "it has another job secret");
    on_all(seats, 2, act_join);
    assert_int_equal(seats[0].status, 0);
    assert_int_equal(seats[1].status, 0);
    seats_free(seats, 3);
    job_stop(&job);
    char *log = capture_end();
    assert_int_equal(count_of(log, "it does not know the job's secret"), 1);
    free(log);
}

static void without_the_proof_nothing_is_told(void **state)
{
    (void)state;
    struct job job;
    struct sfab_stream stream;
    struct sfab_frame frame;
    struct sfab_boot_secret wrong = secret_of("open barley");
    capture_start();
    job_start(&job, 2, 20 * S);
    struct sfab_hello hello = hello_of(1, 3); /* wrong size as well: it must not hear of that */
    assert_true(hand_made_proof(stranger(job.port), &hello, &wrong, &stream));
    assert_false(hand_made_frame(&stream, &frame));
    assert_int_equal(stream.in.end, 0); /* not one byte after the challenge */
    sfab_stream_end(&stream);
    job_stop(&job);
    free(capture_end());
}

/* A server that accepts whoever comes, as one would who wants to catch ranks. */
struct impostor {
    int fd;
    uint16_t port;
    const char *banner; /* instead of a challenge */
    bool silent;
};

static void impostor_listen(struct impostor *impostor)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t at_bytes = sizeof at;
    impostor->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(impostor->fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(impostor->fd, 8), 0);
    assert_int_equal(getsockname(impostor->fd, (struct sockaddr *)&at, &at_bytes), 0);
    impostor->port = ntohs(at.sin_port);
}

static void *impostor_serve(void *arg)
{
    struct impostor *impostor = arg;
    int fd = accept(impostor->fd, NULL, NULL);
    struct sfab_stream stream;
    struct sfab_frame frame;
    uint8_t bytes[SFAB_FRAME_NONCE_BYTES] = {0};
    sfab_stream_init(&stream, fd, 1024);
    if (impostor->banner != NULL) {
        (void)send(fd, impostor->banner, strlen(impostor->banner), MSG_NOSIGNAL);
    } else if (!impostor->silent) {
        (void)hand_made_frame(&stream, &frame);
        sfab_stream_queue_copy(&stream, SFAB_FRAME_CHALLENGE, bytes, sizeof bytes);
        sfab_stream_flush(&stream);
        (void)hand_made_frame(&stream, &frame); /* any proof will do */
        sfab_stream_secure_out(&stream, bytes, SFAB_AUTH_TO_CLIENT);
        sfab_stream_queue_copy(&stream, SFAB_FRAME_WELCOME, NULL, 0);
        sfab_stream_flush(&stream);
    }
    while (recv(fd, bytes, sizeof bytes, 0) > 0) { /* until the rank has had enough */
    }
    sfab_stream_end(&stream);
    return NULL;
}

static struct seat *join_impostor(struct impostor *impostor, uint64_t timeout_ns)
{
    pthread_t thread;
    impostor_listen(impostor);
    struct job job = {.port = impostor->port, .size = 2, .secret = secret_of("open sesame")};
    struct seat *seat = seats_new(&job, 1);
    seat->config.join_timeout_ns = timeout_ns;
    assert_int_equal(pthread_create(&thread, NULL, impostor_serve, impostor), 0);
    act_join(seat);
    pthread_join(thread, NULL);
    close(impostor->fd);
    return seat;
}

static void false_servers_are_found_out(void **state)
{
    (void)state;
    struct impostor accepting = {0};
    struct seat *seat = join_impostor(&accepting, 10 * S);
    assert_says(seat, SFAB_ERR_AUTH, "does not know the job secret");
    seats_free(seat, 1);
    struct impostor ssh = {.banner = "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n"};
    seat = join_impostor(&ssh, 10 * S);
    assert_says(seat, -EPROTO, "is not a syncfab rendezvous");
    seats_free(seat, 1);
    struct impostor silent = {.silent = true};
    seat = join_impostor(&silent, 300 * MS);
    assert_says(seat, -ETIMEDOUT, "but nothing there spoke within");
    seats_free(seat, 1);
}

/* ---- reaching the server ----------------------------------------------------------------- */

static uint16_t free_port(void)
{
    struct impostor nobody = {0};
    impostor_listen(&nobody);
    close(nobody.fd);
    return nobody.port;
}

static void nobody_there(void **state)
{
    (void)state;
    struct job job = {.port = free_port(), .size = 2, .secret = secret_of("open sesame")};
    struct seat *seat = seats_new(&job, 1);
    char where[64];
    seat->config.join_timeout_ns = 300 * MS;
    uint64_t start_ns = sfab_now_ns();
    act_join(seat);
    assert_true(sfab_now_ns() - start_ns >= 300 * MS);
    snprintf(where, sizeof where, "127.0.0.1:%u within 300 ms: Connection refused", job.port);
    assert_says(seat, -ETIMEDOUT, where);
    seats_free(seat, 1);
}

static void *start_late(void *arg)
{
    struct job *job = arg;
    struct sfab_boot_server_config config = {.listen_host = "127.0.0.1",
                                             .port = job->port,
                                             .size = job->size,
                                             .secret = job->secret,
                                             .join_timeout_ns = 20 * S};
    uint16_t port;
    usleep(300000);
    sfab_boot_server_start(&config, &job->server, &port, NULL);
    return NULL;
}

static void server_may_come_last(void **state)
{
    (void)state;
    struct job job = {.port = free_port(), .size = 4, .secret = secret_of("open sesame")};
    struct seat *seats = seats_new(&job, 4);
    pthread_t late;
    assert_int_equal(pthread_create(&late, NULL, start_late, &job), 0);
    on_all(seats, 4, act_join);
    pthread_join(late, NULL);
    assert_non_null(job.server);
    finish_job(&job, seats);
}

static void server_stops_while_ranks_wait(void **state)
{
    (void)state;
    struct job job;
    job_start(&job, 2, 20 * S);
    struct seat *seat = seats_new(&job, 1);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, join_thread, seat), 0);
    usleep(200000);
    job_stop(&job);
    pthread_join(thread, NULL);
    assert_says(seat, -ECONNRESET, "while it waited for the other ranks");
    seats_free(seat, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        boot_test(jobs_of_many_sizes),
        boot_test(missing_ranks_are_named_by_the_server),
        boot_test(missing_rank_is_named_when_a_rank_gives_up),
        boot_test(death_at_the_start_is_told),
        boot_test(taken_rank_is_refused),
        boot_test(wrong_size_is_refused),
        boot_test(other_versions_are_refused),
        boot_test(bad_settings_fail_at_once),
        boot_test(bad_servers_fail_at_once),
        boot_test(wrong_secret_is_refused),
        boot_test(without_the_proof_nothing_is_told),
        boot_test(false_servers_are_found_out),
        boot_test(nobody_there),
        boot_test(server_may_come_last),
        boot_test(server_stops_while_ranks_wait),
    };
    return cmocka_run_group_tests_name("bootstrap: joining", tests, NULL, NULL);
}
