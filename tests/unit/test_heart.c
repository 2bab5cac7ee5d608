/* test_heart.c - whether the other end's host is there: fabric/boot/heart.h. */
#include "fabric/boot/heart.h"
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

static void silence(void **state)
{
    const struct sfab_heart quiet = {.unacked = 0, .last_ack_ns = 100};
    const struct sfab_heart lost = {.unacked = 1, .last_ack_ns = 100};

    (void)state;
    assert_false(sfab_heart_silent(&quiet, 100, 50)); /* nothing is on its way */
    assert_false(sfab_heart_silent(&lost, 49, 50));   /* it has only just been sent */
    assert_false(sfab_heart_silent(&lost, 100, 101)); /* something was acknowledged since */
    assert_true(sfab_heart_silent(&lost, 100, 100));
}

/* The far end's process does nothing at all: its kernel answers. */
static void the_kernel_answers(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    struct sfab_heart heart = {.unacked = 1};
    int pair[2], listener = socket(AF_INET, SOCK_STREAM, 0);

    (void)state;
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    int near = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(near, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(send(near, "beat", 4, MSG_NOSIGNAL), 4);
    for (int i = 0; i < 1000 && heart.unacked > 0; i++) {
        usleep(1000);
        assert_true(sfab_heart_look(near, &heart));
    }
    assert_int_equal(heart.unacked, 0);
    close(near);
    close(listener);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_false(sfab_heart_look(pair[0], &heart));
    close(pair[0]);
    close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(silence),
                                       cmocka_unit_test(the_kernel_answers)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
