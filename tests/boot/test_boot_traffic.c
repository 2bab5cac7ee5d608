/* test_boot_traffic.c - a running job: exchanges, messages, departures. */
#include "boot_harness.h"

#include "fabric/boot/net.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
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
        struct exchange x = {.tag = 5, .count = 16, .blob_bytes = blob_sizes[i],
                             .timeout_ns = (int64_t)(20 * S), .times = 20};
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
    struct exchange x = {.tag = 9, .count = 5, .timeout_ns = (int64_t)(300 * MS), .times = 1};
    struct exchange patient = {.tag = 9, .count = 5, .timeout_ns = -1, .times = 1};
    set_exchange(seats, 2, &x);
    seats[1].arg = &patient; /* hears it from the one that gives up */
    on_all(seats, 2, act_exchange);
    assert_statuses(seats, 2, -ETIMEDOUT);
    for (uint32_t r = 0; r < 2; r++) {
        assert_non_null(strstr(seats[r].err.text, "ranks 2-4 have not come"));
        assert_non_null(strstr(seats[r].err.text, "rank 0 (hostA) waited 3"));
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

/* ---- departures -------------------------------------------------------------------------- */

static void deaths_and_goodbyes_are_told(void **state)
{
    (void)state;
    struct job job;
    struct seat *seats = joined_job(&job, 4);
    assert_int_equal(sfab_boot_leave(seats[1].boot, 77, 0, NULL), -ETIMEDOUT);
    act_close(&seats[1]); /* after its goodbye: no death */
    act_close(&seats[2]); /* without */
    assert_true(wait_gone(&seats[0], 2, 10 * S));
    assert_true(wait_gone(&seats[3], 2, 10 * S));
    for (uint32_t r = 0; r < 4; r += 3) {
        assert_int_equal(seats[r].gone[1], 1);
        assert_int_equal(seats[r].goodbye[1], 77);
        assert_int_equal(seats[r].gone[2], 2);
    }
    assert_int_equal(sfab_boot_send(seats[0].boot, 2, 0, NULL, 0), SFAB_ERR_PEER_DEAD);
    on_all(seats + 3, 1, act_close);
    act_leave(&seats[0]); /* nobody is left: returns at once */
    assert_int_equal(seats[0].status, 0);
    assert_int_equal(seats[0].gone_count, 3);
    assert_int_equal(seats[0].lost_count, 0);
    seats_free(seats, 4);
    assert_int_equal(sfab_boot_server_drain(job.server, (int64_t)(10 * S)), 0);
    job_stop(&job);
}

static void leave_names_those_still_in(void **state)
{
    (void)state;
    struct job job;
    struct sfab_err err = {0};
    struct seat *seats = joined_job(&job, 5);
    act_close(&seats[1]);
    assert_true(wait_gone(&seats[0], 1, 10 * S));
    assert_int_equal(sfab_boot_leave(seats[0].boot, 1, (int64_t)(200 * MS), &err), -ETIMEDOUT);
    assert_string_equal(err.text, "rank 0 left the job and waited 200 ms: ranks 2-4 are still in it");
    assert_int_equal(sfab_boot_allgather(seats[0].boot, 1, NULL, 5, NULL, 0, 0, &seats[0].table,
                                         &err),
                     -ENOTCONN);
    assert_int_equal(sfab_boot_server_drain(job.server, (int64_t)(100 * MS)), -ETIMEDOUT);
    on_all(seats + 2, 3, act_close);
    act_leave(&seats[0]); /* may be called again */
    assert_int_equal(seats[0].status, 0);
    seats_free(seats, 5);
    job_stop(&job);
}

static void lost_server_is_told_once(void **state)
{
    (void)state;
    struct job job;
    struct sfab_err err = {0};
    struct seat *seats = joined_job(&job, 2);
    struct exchange x = {.tag = 1, .count = 2, .timeout_ns = -1, .times = 1};
    set_exchange(seats, 2, &x);
    job_stop(&job);
    on_all(seats, 2, act_exchange);
    assert_statuses(seats, 2, -ECONNRESET);
    assert_non_null(strstr(seats[0].err.text, "rank 0 lost the rendezvous at 127.0.0.1:"));
    for (int i = 0; i < 3; i++) { /* SIGPIPE must not end this process */
        assert_int_equal(sfab_boot_send(seats[0].boot, 1, 0, NULL, 0), -ECONNRESET);
    }
    assert_int_equal(sfab_boot_leave(seats[0].boot, 1, -1, &err), -ECONNRESET);
    for (uint32_t r = 0; r < 2; r++) {
        assert_true(wait_lost(&seats[r], 1, 10 * S));
        assert_false(wait_lost(&seats[r], 2, 50 * MS));
    }
    seats_free(seats, 2);
}

/* ---- being a good guest in a process ------------------------------------------------------ */

/* Calls see(name) for each entry of a directory but the dots. */
static void each_entry(const char *path, void (*see)(const char *name))
{
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(dir)) {
            see(entry->d_name);
        }
    }
    closedir(dir);
}

static unsigned seen_count;
static bool seen_open_on_exec[4096];

static void see_fd(const char *name)
{
    int fd = atoi(name);
    if (fd < 4096) {
        seen_count++;
        seen_open_on_exec[fd] = (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0;
    }
}

static unsigned blocked_threads;

/* Counts the threads that have every signal blocked that can be. */
static void see_task(const char *name)
{
    char path[64];
    char line[256];
    snprintf(path, sizeof path, "/proc/self/task/%.20s/status", name);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return; /* it has ended meanwhile */
    }
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned long long mask;
        if (sscanf(line, "SigBlk: %llx", &mask) == 1) {
            unsigned long long must = 1ull << (SIGINT - 1) | 1ull << (SIGTERM - 1) |
                                      1ull << (SIGCHLD - 1) | 1ull << (SIGUSR1 - 1) |
                                      1ull << (SIGPIPE - 1) | 1ull << (SIGALRM - 1);
            blocked_threads += (mask & must) == must ? 1 : 0;
        }
    }
    fclose(file);
}

/* Threads that are just ending have their signals blocked too: looks again for a while, until there are
 * no more than wanted. */
static unsigned count_blocked(unsigned wanted)
{
    for (int i = 0; i < 500; i++) {
        blocked_threads = 0;
        each_entry("/proc/self/task", see_task);
        if (blocked_threads <= wanted) {
            break;
        }
        usleep(i < 50 ? 1000 : 10000);
    }
    return blocked_threads;
}

static void descriptors_and_signals_are_kept_clean(void **state)
{
    (void)state;
    bool before[4096];
    seen_count = 0;
    memset(seen_open_on_exec, 0, sizeof seen_open_on_exec);
    each_entry("/proc/self/fd", see_fd);
    unsigned count_before = seen_count;
    memcpy(before, seen_open_on_exec, sizeof before);
    usleep(100000); /* for the last test's threads to be gone */
    unsigned blocked_before = count_blocked(1); /* a sanitizer has one of its own */
    struct job job;
    struct seat *seats = joined_job(&job, 4);
    memset(seen_open_on_exec, 0, sizeof seen_open_on_exec);
    each_entry("/proc/self/fd", see_fd);
    assert_memory_equal(seen_open_on_exec, before, sizeof before); /* all new ones close on exec */
    /* Four control threads and the server's. */
    assert_int_equal(count_blocked(blocked_before + 5), blocked_before + 5);
    finish_job(&job, seats);
    seen_count = 0;
    each_entry("/proc/self/fd", see_fd);
    assert_int_equal(seen_count, count_before);
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
        boot_test(deaths_and_goodbyes_are_told),
        boot_test(leave_names_those_still_in),
        boot_test(lost_server_is_told_once),
        boot_test(descriptors_and_signals_are_kept_clean),
    };
    return cmocka_run_group_tests_name("bootstrap: traffic", tests, NULL, NULL);
}
