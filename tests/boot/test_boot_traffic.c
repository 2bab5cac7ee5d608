/* test_boot_traffic.c - a running job: exchanges and messages. */
#include "boot_harness.h"

#include "fabric/boot/net.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- exchanges --------------------------------------------------------------------------- */

/* What a seat exchanges; in seat->arg. */
struct exchange {
    uint64_t tag;
    const uint32_t *members; /* NULL: all */
    uint32_t count;
    size_t blob_bytes;
    int64_t timeout_ns;
    unsigned times;
};

/* Byte i of what rank brings the n-th time. */
static uint8_t blob_byte(uint32_t rank, unsigned n, size_t i)
{
    return (uint8_t)(rank * 31 + n * 7 + i);
}

static bool table_is_right(const struct exchange *x, const struct sfab_boot_blob *table, unsigned n)
{
    for (uint32_t m = 0; m < x->count; m++) {
        uint32_t rank = x->members != NULL ? x->members[m] : m;
        if (table[m].len_bytes != (x->blob_bytes > rank ? x->blob_bytes - rank : 0)) {
            return false;
        }
        for (size_t i = 0; i < table[m].len_bytes; i++) {
            if (table[m].data[i] != blob_byte(rank, n, i)) {
                return false;
            }
        }
    }
    return true;
}

/* Brings blob_bytes - rank bytes, so that lengths differ. status 1: a wrong table. */
static void act_exchange(struct seat *seat)
{
    const struct exchange *x = seat->arg;
    uint8_t blob[SFAB_BOOT_BLOB_MAX];
    uint32_t rank = seat->config.rank;
    seat->status = 0;
    for (unsigned n = 0; n < x->times && seat->status == 0; n++) {
        struct sfab_boot_blob *table = NULL;
        for (size_t i = 0; i < sizeof blob; i++) {
            blob[i] = blob_byte(rank, n, i);
        }
        seat->status = sfab_boot_allgather(seat->boot, x->tag, x->members, x->count, blob,
                                           x->blob_bytes > rank ? x->blob_bytes - rank : 0,
                                           x->timeout_ns, &table, &seat->err);
        if (seat->status == 0 && !table_is_right(x, table, n)) {
            seat->status = 1;
        }
        free(table);
    }
}

static void set_exchange(struct seat *seats, uint32_t count, struct exchange *x)
{
    for (uint32_t i = 0; i < count; i++) {
        seats[i].arg = x;
    }
}

static void assert_statuses(const struct seat *seats, uint32_t count, int status)
{
    for (uint32_t i = 0; i < count; i++) {
        if (seats[i].status != status) {
            fail_msg("rank %u: wanted %d, got %d %s", i, status, seats[i].status,
                     seats[i].err.text);
        }
    }
}

static void exchanges_of_all(void **state)
{
    (void)state;
    static const size_t blob_sizes[] = {0, 1, 300, SFAB_BOOT_BLOB_MAX};
    struct job job;
    struct seat *seats = joined_job(&job, 16);
    for (size_t i = 0; i < 4; i++) { /* one tag, again and again */
        struct exchange x = {.tag = 5,
                             .count = 16,
                             .blob_bytes = blob_sizes[i],
                             .timeout_ns = (int64_t)(20 * S),
                             .times = 20};
        set_exchange(seats, 16, &x);
        on_all(seats, 16, act_exchange);
        assert_statuses(seats, 16, 0);
    }
    finish_job(&job, seats);
}

static void exchanges_of_subsets_at_once(void **state)
{
    (void)state;
    static const uint32_t odd[] = {7, 1, 5, 3}; /* any order, if it is the same everywhere */
    static const uint32_t even[] = {0, 2, 4};
    static const uint32_t alone[] = {6};
    struct exchange x[] = {{1, odd, 4, 100, (int64_t)(20 * S), 50},
                           {2, even, 3, 200, -1, 50},
                           {3, alone, 1, 50, (int64_t)(20 * S), 50}};
    struct job job;
    struct seat *seats = joined_job(&job, 8);
    for (uint32_t r = 0; r < 8; r++) {
        seats[r].arg = r % 2 == 1 ? &x[0] : r == 6 ? &x[2] : &x[1];
    }
    on_all(seats, 8, act_exchange);
    assert_statuses(seats, 8, 0);
    finish_job(&job, seats);
}

static void bad_exchanges_are_refused(void **state)
{
    (void)state;
    static const uint32_t twice[] = {0, 1, 0};
    static const uint32_t beyond[] = {0, 2};
    static const uint32_t without_me[] = {1};
    struct job job;
    struct seat *seats = joined_job(&job, 2);
    struct sfab_boot *boot = seats[0].boot;
    struct sfab_boot_blob *table = NULL;
    struct sfab_err err;
    uint8_t blob[SFAB_BOOT_BLOB_MAX + 1] = {0};
    assert_int_equal(sfab_boot_allgather(boot, 1, twice, 3, blob, 1, 0, &table, &err), -EINVAL);
    assert_int_equal(sfab_boot_allgather(boot, 1, twice, 0, blob, 1, 0, &table, &err), -EINVAL);
    assert_int_equal(sfab_boot_allgather(boot, 1, beyond, 2, blob, 1, 0, &table, &err), -EINVAL);
    assert_int_equal(sfab_boot_allgather(boot, 1, without_me, 1, blob, 1, 0, &table, &err),
                     -EINVAL);
    assert_int_equal(sfab_boot_allgather(boot, 1, NULL, 1, blob, 1, 0, &table, &err), -EINVAL);
    assert_int_equal(sfab_boot_allgather(boot, 1, NULL, 2, blob, sizeof blob, 0, &table, &err),
                     -EINVAL);
    assert_int_equal(sfab_boot_allgather(boot, 1, NULL, 2, NULL, 1, 0, &table, &err), -EINVAL);
    assert_null(table);
    finish_job(&job, seats);
}

static void late_members_are_named_and_the_tag_is_dead(void **state)
{
    (void)state;
    struct job job;
    struct seat *seats = joined_job(&job, 5);
    struct exchange x = {.tag = 9, .count = 5, .timeout_ns = (int64_t)(2 * S), .times = 1};
    struct exchange patient = {.tag = 9, .count = 5, .timeout_ns = -1, .times = 1};
    set_exchange(seats, 2, &x);
    seats[1].arg = &patient; /* hears it from the one that gives up */
    on_all(seats, 2, act_exchange);
    assert_statuses(seats, 2, -ETIMEDOUT);
    for (uint32_t r = 0; r < 2; r++) {
        assert_non_null(strstr(seats[r].err.text, "ranks 2-4 have not come"));
        assert_non_null(strstr(seats[r].err.text, "rank 0 (hostA) waited 2"));
    }
    set_exchange(seats + 2, 1, &patient);
    on_all(seats + 2, 1, act_exchange); /* too late */
    assert_statuses(seats + 2, 1, -ETIMEDOUT);
    x.tag = 10; /* another tag works */
    x.timeout_ns = (int64_t)(20 * S);
    set_exchange(seats, 5, &x);
    on_all(seats, 5, act_exchange);
    assert_statuses(seats, 5, 0);
    finish_job(&job, seats);
}

static void different_members_are_a_mismatch(void **state)
{
    (void)state;
    static const uint32_t pair[] = {0, 1};
    struct exchange all = {.tag = 4, .count = 3, .timeout_ns = (int64_t)(20 * S), .times = 1};
    struct exchange two = {4, pair, 2, 0, (int64_t)(20 * S), 1};
    struct job job;
    struct seat *seats = joined_job(&job, 3);
    seats[0].arg = &all;
    seats[1].arg = &two;
    on_all(seats, 2, act_exchange);
    assert_statuses(seats, 2, SFAB_ERR_MISMATCH);
    assert_non_null(strstr(seats[0].err.text, "different lists of members"));
    finish_job(&job, seats);
}

static void act_exchange_or_die(struct seat *seat)
{
    if (seat->config.rank == 2) {
        usleep(200000);
        act_close(seat);
    } else {
        act_exchange(seat);
    }
}

static void death_ends_an_exchange(void **state)
{
    (void)state;
    struct exchange x = {.tag = 4, .count = 3, .timeout_ns = -1, .times = 1};
    struct job job;
    struct seat *seats = joined_job(&job, 3);
    set_exchange(seats, 3, &x);
    on_all(seats, 3, act_exchange_or_die);
    assert_statuses(seats, 2, SFAB_ERR_PEER_DEAD);
    assert_non_null(strstr(seats[0].err.text, "rank 2 (hostA) died before the exchange"));
    assert_int_equal(seats[0].gone[2], 2); /* told before the failure */
    x.tag = 5;
    on_all(seats, 2, act_exchange); /* and one with a rank long dead */
    assert_statuses(seats, 2, SFAB_ERR_PEER_DEAD);
    seats_free(seats, 3);
    job_stop(&job);
}

/* ---- messages ---------------------------------------------------------------------------- */

#define FLOOD 3000u

static void act_flood(struct seat *seat)
{
    uint8_t message[100] = {0};
    seat->status = 0;
    for (uint32_t n = 0; n < FLOOD && seat->status == 0; n++) {
        memcpy(message, &n, sizeof n);
        for (uint32_t to = 0; to < seat->config.size && seat->status == 0; to++) {
            seat->status = sfab_boot_send(seat->boot, to, 3, message, 4 + n % 97);
        }
    }
}

/* From each of `senders` ranks FLOOD messages, none twice, none missing, in order. */
static void assert_in_order(struct seat *seat, uint32_t senders)
{
    uint32_t next[SEATS_MAX] = {0};
    for (uint32_t i = 0; i < seat->message_count; i++) {
        const struct told *told = &seat->messages[i];
        assert_true(told->src < senders);
        assert_int_equal(told->number, next[told->src]);
        assert_int_equal(told->len_bytes, 4 + told->number % 97);
        next[told->src]++;
    }
    for (uint32_t r = 0; r < senders; r++) {
        assert_int_equal(next[r], FLOOD);
    }
}

static void messages_arrive_once_and_in_order(void **state)
{
    (void)state;
    struct job job;
    struct seat *seats = joined_job(&job, 4);
    on_all(seats, 4, act_flood);
    assert_statuses(seats, 4, 0);
    for (uint32_t r = 0; r < 4; r++) {
        assert_true(wait_messages(&seats[r], 4 * FLOOD, 60 * S));
        assert_in_order(&seats[r], 4);
    }
    finish_job(&job, seats);
}

static void callbacks_may_send(void **state)
{
    (void)state;
    struct job job;
    struct seat *seats = joined_job(&job, 2);
    seats[1].echo = true;
    for (uint32_t n = 0; n < 1000; n++) {
        assert_int_equal(sfab_boot_send(seats[0].boot, 1, 8, &n, sizeof n), 0);
    }
    assert_true(wait_messages(&seats[0], 1000, 20 * S));
    for (uint32_t n = 0; n < 1000; n++) {
        assert_int_equal(seats[0].messages[n].channel, 9);
        assert_int_equal(seats[0].messages[n].number, n);
    }
    finish_job(&job, seats);
}

static void bad_messages_are_refused(void **state)
{
    (void)state;
    struct job job;
    struct seat *seats = joined_job(&job, 2);
    uint8_t message[SFAB_BOOT_MESSAGE_MAX + 1] = {0};
    struct sfab_boot *boot = seats[0].boot;
    assert_int_equal(sfab_boot_send(boot, 2, 0, message, 1), -EINVAL);
    assert_int_equal(sfab_boot_send(boot, 1, 0, message, sizeof message), -EINVAL);
    assert_int_equal(sfab_boot_send(boot, 1, 0, NULL, 1), -EINVAL);
    assert_int_equal(sfab_boot_send(boot, 1, 0, NULL, 0), 0);
    assert_int_equal(sfab_boot_send(boot, 1, 65535, message, SFAB_BOOT_MESSAGE_MAX), 0);
    assert_true(wait_messages(&seats[1], 2, 10 * S));
    assert_int_equal(seats[1].messages[0].len_bytes, 0);
    assert_int_equal(seats[1].messages[1].len_bytes, SFAB_BOOT_MESSAGE_MAX);
    assert_int_equal(seats[1].messages[1].channel, 65535);
    finish_job(&job, seats);
}

#define STORM 20000u /* messages of 1 KiB: well beyond what queues and sockets hold */

static void act_storm(struct seat *seat)
{
    uint8_t message[SFAB_BOOT_MESSAGE_MAX] = {0};
    seat->status = 0;
    for (uint32_t n = 0; n < STORM && seat->status == 0; n++) {
        memcpy(message, &n, sizeof n);
        seat->status = sfab_boot_send(seat->boot, 1, 3, message, sizeof message);
    }
}

static void *storm_thread(void *seat)
{
    act_storm(seat);
    return NULL;
}

static void slow_reader_hinders_nobody_else(void **state)
{
    (void)state;
    static const uint32_t others[] = {2, 3};
    struct exchange x = {1, others, 2, 100, (int64_t)(20 * S), 100};
    struct job job;
    struct seat *seats = joined_job(&job, 4);
    pthread_t storm;
    set_exchange(seats + 2, 2, &x);
    seats[1].slow_us = 200; /* at least 4 s for all of it */
    assert_int_equal(pthread_create(&storm, NULL, storm_thread, &seats[0]), 0);
    usleep(500000);
    on_all(seats + 2, 2, act_exchange);
    assert_statuses(seats + 2, 2, 0);
    assert_true(messages_of(&seats[1]) < STORM); /* it was still at it */
    pthread_join(storm, NULL);
    assert_int_equal(seats[0].status, 0);
    assert_true(wait_messages(&seats[1], STORM, 120 * S));
    for (uint32_t n = 0; n < STORM; n++) {
        assert_int_equal(seats[1].messages[n].number, n);
    }
    finish_job(&job, seats);
}

static void death_of_a_slow_reader_frees_its_sender(void **state)
{
    (void)state;
    struct job job;
    struct seat *seats = joined_job(&job, 2);
    pthread_t storm;
    seats[1].slow_us = 500000;
    assert_int_equal(pthread_create(&storm, NULL, storm_thread, &seats[0]), 0);
    usleep(500000);
    act_close(&seats[1]);
    pthread_join(storm, NULL); /* ends, as nobody is there to read any more */
    assert_int_equal(seats[0].status, SFAB_ERR_PEER_DEAD);
    assert_true(wait_gone(&seats[0], 1, 10 * S));
    seats_free(seats, 2);
    job_stop(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        boot_test(exchanges_of_all),
        boot_test(exchanges_of_subsets_at_once),
        boot_test(bad_exchanges_are_refused),
        boot_test(late_members_are_named_and_the_tag_is_dead),
        boot_test(different_members_are_a_mismatch),
        boot_test(death_ends_an_exchange),
        boot_test(messages_arrive_once_and_in_order),
        boot_test(callbacks_may_send),
        boot_test(bad_messages_are_refused),
        boot_test(slow_reader_hinders_nobody_else),
        boot_test(death_of_a_slow_reader_frees_its_sender),
    };
    return cmocka_run_group_tests_name("bootstrap: traffic", tests, NULL, NULL);
}
