/* test_boot_leave.c - ranks that leave or die, a server that goes, and what the host process
 * notices. */
#include "boot_harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

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
    assert_string_equal(err.text,
                        "rank 0 left the job and waited 200 ms: ranks 2-4 are still in it");
    assert_int_equal(
        sfab_boot_allgather(seats[0].boot, 1, NULL, 5, NULL, 0, 0, &seats[0].table, &err),
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
    job_stop(&job);
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(
            sfab_boot_allgather(seats[r].boot, 1, NULL, 2, NULL, 0, -1, &seats[r].table, &err),
            -ECONNRESET);
        assert_non_null(strstr(err.text, "lost the rendezvous at 127.0.0.1:"));
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sfab_boot_send(seats[0].boot, 1, 0, NULL, 0), -ECONNRESET);
    }
    assert_int_equal(sfab_boot_leave(seats[0].boot, 1, -1, &err), -ECONNRESET);
    for (uint32_t r = 0; r < 2; r++) {
        assert_true(wait_lost(&seats[r], 1, 10 * S));
        assert_false(wait_lost(&seats[r], 2, 50 * MS));
    }
    seats_free(seats, 2);
}

/* The signal's default would end this process. */
static void writing_to_the_dead_raises_no_sigpipe(void **state)
{
    (void)state;
    int ends[2];
    struct sfab_stream stream;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    close(ends[1]);
    sfab_stream_init(&stream, ends[0], 100);
    assert_int_equal(sfab_stream_queue_copy(&stream, SFAB_FRAME_JOINED, NULL, 0), 0);
    assert_int_equal(sfab_stream_flush(&stream), -EPIPE);
    sfab_stream_end(&stream);
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

/* Threads that are just ending have their signals blocked too: looks again for a while, until there
 * are no more than wanted. */
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
    usleep(100000);                             /* for the last test's threads to be gone */
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
        boot_test(deaths_and_goodbyes_are_told),
        boot_test(leave_names_those_still_in),
        boot_test(lost_server_is_told_once),
        boot_test(writing_to_the_dead_raises_no_sigpipe),
        boot_test(descriptors_and_signals_are_kept_clean),
    };
    return cmocka_run_group_tests_name("bootstrap: leaving", tests, NULL, NULL);
}
