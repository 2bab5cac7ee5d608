/* err.c - failures as a code and a sentence, and the few words for each code. */
#include "fabric/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TEXT(x)        #x
#define NUMBER_TEXT(x) TEXT(x)

static int fail_v(struct sfab_err *err, int code, const char *format, va_list args)
{
    if (err != NULL) {
        err->code = code;
        /* A sentence that does not fit is cut: better a short one than none. */
        if (vsnprintf(err->text, sizeof err->text, format, args) < 0) {
            err->text[0] = '\0';
        }
    }
    return code;
}

int sfab_fail(struct sfab_err *err, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail_v(err, code, format, args);
    va_end(args);
    return code;
}

int sfab_fail_first(struct sfab_err *err, int code, const char *format, ...)
{
    if (err != NULL && err->code == 0) {
        va_list args;
        va_start(args, format);
        fail_v(err, code, format, args);
        va_end(args);
    }
    return code;
}

const char *sfab_errno_text(int errnum)
{
    static _Thread_local char buf[96];
    return strerror_r(errnum, buf, sizeof buf); /* GNU: may return static text instead */
}

static const char *own_code_text(int code)
{
    switch (code) {
    case SFAB_ERR_PEER_DEAD:
        return "a peer died or left";
    case SFAB_ERR_MISMATCH:
        return "ranks called different collectives";
    case SFAB_ERR_STALE:
        return "of an earlier incarnation";
    case SFAB_ERR_VERSION:
        return "syncfab versions do not work together";
    case SFAB_ERR_PROVIDER:
        return "the network device or its driver failed";
    case SFAB_ERR_AUTH:
        return "the job secret is missing or does not match";
    case SFAB_ERR_CONFIG:
        return "a setting cannot be used";
    case SFAB_ERR_CANCELLED:
        return "the operation was cancelled";
    default:
        return NULL;
    }
}

const char *sfab_strerror(int code)
{
    if (code == 0) {
        return "success";
    }
    if (code == SFAB_INPROGRESS) {
        return "not finished yet";
    }
    const char *own = own_code_text(code);
    if (own != NULL) {
        return own;
    }
    const char *system = NULL;
    if (code < 0 && code >= -4095) {
        system = strerrordesc_np(-code);
    }
    return system != NULL ? system : "unknown code";
}

const char *sfab_version(void)
{
    return NUMBER_TEXT(SFAB_VERSION_MAJOR) "." NUMBER_TEXT(SFAB_VERSION_MINOR) "." NUMBER_TEXT(
        SFAB_VERSION_PATCH);
}
