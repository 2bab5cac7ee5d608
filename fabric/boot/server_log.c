/* server_log.c - refused connections, each cause and address told once.
 *
 * Whoever can reach the port can make the server refuse him as often as he likes: the log must not
 * grow with that. */
#include "fabric/boot/server_impl.h"
#include "fabric/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Notes it; false if it has been told before. */
static bool first_time(struct sfab_boot_server *server, enum sfab_refusal cause,
                       const char *address)
{
    for (size_t i = 0; i < server->told_count; i++) {
        if (server->told[i].cause == cause && strcmp(server->told[i].address, address) == 0) {
            return false;
        }
    }
    if (server->told_count == SFAB_REFUSALS_MAX) {
        return false;
    }
    struct sfab_refusal_told *told = &server->told[server->told_count++];
    told->cause = cause;
    snprintf(told->address, sizeof told->address, "%s", address);
    return true;
}

void sfab_refused(struct sfab_boot_server *server, const struct sfab_conn *conn,
                  enum sfab_refusal cause, const char *format, ...)
{
    if (!first_time(server, cause, conn->address)) {
        return;
    }
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    /* One that knows the secret may be a rank that the job now lacks. */
    bool harmless = conn->stage == SFAB_CONN_HELLO || conn->stage == SFAB_CONN_PROOF ||
                    cause == SFAB_REFUSED_TAKEN;
    sfab_log(SFAB_LOG_WARN, "refused a connection from %s: %s%s%s", conn->address, text,
             harmless ? "; the job is not affected" : "",
             server->told_count == SFAB_REFUSALS_MAX ? " (further refusals are not shown)" : "");
}
