/* abort.c - one rank ends the waits of all. */
#include "fabric/ctx.h"
#include "fabric/events.h"

#include <errno.h>

int sfab_abort(sfab_ctx *ctx, int code, const char *text)
{
    if (!sfab_ctx_ok(ctx) || code >= 0 || text == NULL)
        return -EINVAL;
    if (ctx->boot == NULL) { /* alone in the job */
        sfab_ctx_events(ctx)->aborted(ctx, ctx->rank, code, text);
        return 0;
    }
    return ctx->rt->abort(ctx->boot, code, text);
}
