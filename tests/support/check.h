/* check.h - checks for test programs that run as ranks: a failed one says what, where and on which rank,
 * and is counted; the rank goes on, so that the others are not left behind. */
#ifndef SFAB_TESTS_SUPPORT_CHECK_H
#define SFAB_TESTS_SUPPORT_CHECK_H

#include "syncfab/syncfab.h"

#include <stdatomic.h>
#include <stdio.h>

struct sfab_check {
    sfab_ctx *ctx;
    sfab_group *world;
    int rank, size;
    int failures;     /* of this rank in the check that runs */
    const char *name; /* of that check */
};

#define CHECK(c, condition)                                                                        \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (c)->failures++;                                                                       \
            fprintf(stderr, "FAILED rank %d, %s: %s:%d: %s\n", (c)->rank, (c)->name, __FILE__,     \
                    __LINE__, #condition);                                                         \
        }                                                                                          \
    } while (0)

/* A call of the library that must answer `want`; the library's own sentence is shown if not. */
#define CHECK_RC(c, want, call)                                                                    \
    do {                                                                                           \
        int rc_ = (call), want_ = (want);                                                          \
        if (rc_ != want_) {                                                                        \
            char text_[1024];                                                                      \
            sfab_last_error((c)->ctx, text_, sizeof text_);                                        \
            (c)->failures++;                                                                       \
            fprintf(stderr, "FAILED rank %d, %s: %s:%d: %s is %d (%s), not %d: %s\n", (c)->rank,   \
                    (c)->name, __FILE__, __LINE__, #call, rc_, sfab_strerror(rc_), want_, text_);  \
        }                                                                                          \
    } while (0)

#define CHECK_OK(c, call) CHECK_RC(c, 0, call)

/* Every wait of the tests: long enough for a slow guest, short enough to tell a hang. */
#define PATIENCE_NS INT64_C(30000000000)

#endif
