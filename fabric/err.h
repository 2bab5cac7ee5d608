/* err.h - failures as a code and a sentence.
 *
 * The place that decides that something failed writes the sentence, once, into a struct sfab_err that
 * its caller handed down; everybody above only passes the code on. No allocation, so it works when
 * memory is what failed. */
#ifndef SFAB_FABRIC_ERR_H
#define SFAB_FABRIC_ERR_H

#include "syncfab/syncfab.h"

#define SFAB_ERR_TEXT_BYTES 1024

struct sfab_err {
    int code;
    char text[SFAB_ERR_TEXT_BYTES];
};

/* Formats the sentence into *err (which may be NULL) and returns code. */
int sfab_fail(struct sfab_err *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As sfab_fail, unless *err holds a failure already: the first cause is the one to tell. */
int sfab_fail_first(struct sfab_err *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* strerror for a positive errno, in a buffer of the calling thread. */
const char *sfab_errno_text(int errnum);

#endif
