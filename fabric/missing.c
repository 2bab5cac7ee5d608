/* missing.c - whom a survey waits for: asked of the rendezvous when somebody has lost patience. */
#include "fabric/ctx.h"

#include <stdio.h>

static const int64_t patience_ns = 250000000;

const char *sfab_ctx_missing(struct sfab_ctx *ctx, uint64_t tag, char *text, size_t cap)
{
    uint64_t since_ns = 0;
    bool heard = false;

    snprintf(text, cap, "the rendezvous of the job does not say who is missing");
    if (ctx->boot == NULL)
        return text;
    pthread_mutex_lock(&ctx->groups_lock);
    ctx->missing_tag = tag;
    ctx->missing_text[0] = '\0';
    pthread_mutex_unlock(&ctx->groups_lock);
    if (ctx->rt->survey_ask(ctx->boot, tag) != 0)
        return text;
    while (!heard && sfab_ctx_pause(ctx, &since_ns, patience_ns) == 0) {
        pthread_mutex_lock(&ctx->groups_lock);
        heard = ctx->missing_text[0] != '\0';
        if (heard)
            snprintf(text, cap, "%s", ctx->missing_text);
        pthread_mutex_unlock(&ctx->groups_lock);
    }
    return text;
}
