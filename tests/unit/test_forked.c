/* test_forked.c - what a child does not keep: fabric/boot/forked.h. */
#include "fabric/boot/forked.h"
#include "tests/unit/unit.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t child_that_lives_on(void)
{
    pid_t child = fork();

    if (child == 0)
        for (;;)
            pause();
    assert_true(child > 0);
    return child;
}

/* Whether the far end sees the connection end once this process has closed the near one. */
static bool ends_with_us(int pair[2], int patience_ms)
{
    struct pollfd p = {.fd = pair[1], .events = POLLIN};
    char byte;

    close(pair[0]);
    bool ended = poll(&p, 1, patience_ms) == 1 && read(pair[1], &byte, 1) == 0;
    close(pair[1]);
    return ended;
}

static void end(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void the_connection_ends_with_the_parent(void **state)
{
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    sfab_forked_close(pair[0]);
    pid_t child = child_that_lives_on();
    sfab_forked_forget(pair[0]);
    assert_true(ends_with_us(pair, 5000));
    end(child);
}

static void what_is_forgotten_is_kept(void **state)
{
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    sfab_forked_close(pair[0]);
    sfab_forked_forget(pair[0]);
    sfab_forked_close(-1);
    sfab_forked_forget(-1);
    pid_t child = child_that_lives_on();
    assert_false(ends_with_us(pair, 200));
    end(child);
}

static void a_high_descriptor_too(void **state)
{
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    int high = dup2(pair[0], 777);
    assert_int_equal(high, 777);
    close(pair[0]);
    pair[0] = high;
    sfab_forked_close(high);
    pid_t child = child_that_lives_on();
    sfab_forked_forget(high);
    assert_true(ends_with_us(pair, 5000));
    end(child);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_connection_ends_with_the_parent),
        cmocka_unit_test(what_is_forgotten_is_kept),
        cmocka_unit_test(a_high_descriptor_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
