/* rendezvous.c - where and with what secret this rank meets the others, and serving that place when it is
 * rank 0 and no launcher does. */
#include "fabric/rendezvous.h"
#include "fabric/ctx.h"
#include "fabric/events.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int64_t boot_timeout_ns(const struct sfab_ctx *ctx)
{
    return ctx->config.boot_timeout_ms * 1000000;
}

static int read_secret_file(struct sfab_ctx *ctx, struct sfab_boot_secret *secret)
{
    const char *path = ctx->config.secret_file;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, secret->bytes, sizeof secret->bytes) : -1;
    int code = errno;

    if (fd >= 0)
        close(fd);
    if (len < 0)
        return sfab_ctx_fail(
            ctx, SFAB_ERR_AUTH,
            "rank %u: the job's secret cannot be read from SFAB_SECRET_FILE=%.120s: %s", ctx->rank,
            path, sfab_errno_text(code));
    while (len > 0 && (secret->bytes[len - 1] == '\n' || secret->bytes[len - 1] == '\r'))
        len--;
    if (len == 0)
        return sfab_ctx_fail(
            ctx, SFAB_ERR_AUTH,
            "rank %u: SFAB_SECRET_FILE=%.120s is empty: put the job's secret there, the "
            "same for every rank",
            ctx->rank, path);
    secret->len_bytes = (size_t)len;
    return 0;
}

static int get_secret(struct sfab_ctx *ctx, struct sfab_boot_secret *secret)
{
    size_t len = strlen(ctx->config.secret);

    if (len > 0) {
        memcpy(secret->bytes, ctx->config.secret, len);
        secret->len_bytes = len;
        return 0;
    }
    if (ctx->config.secret_file[0] != '\0')
        return read_secret_file(ctx, secret);
    return sfab_ctx_fail(
        ctx, SFAB_ERR_AUTH,
        "rank %u of %u has no job secret: set SFAB_SECRET or SFAB_SECRET_FILE, the same "
        "for every rank, or start the program with `sfab run -n %u`",
        ctx->rank, ctx->size, ctx->size);
}

static int serve(struct sfab_ctx *ctx, uint16_t port, const struct sfab_boot_secret *secret)
{
    struct sfab_boot_server_config config = {.listen_host = "0.0.0.0",
                                             .port = port,
                                             .size = ctx->size,
                                             .secret = *secret,
                                             .join_timeout_ns = (uint64_t)boot_timeout_ns(ctx),
                                             .heartbeat_timeout_ns =
                                                 (uint64_t)ctx->config.heartbeat_ms * 1000000};
    uint16_t bound;

    return sfab_boot_server_start(&config, &ctx->server, &bound, &ctx->err);
}

int sfab_rendezvous_join(struct sfab_ctx *ctx)
{
    char host[SFAB_CONFIG_TEXT_BYTES];
    struct sfab_boot_config config = {.rank = ctx->rank,
                                      .size = ctx->size,
                                      .host = host,
                                      .own_host = ctx->host,
                                      .join_timeout_ns = (uint64_t)boot_timeout_ns(ctx),
                                      .heartbeat_timeout_ns =
                                          (uint64_t)ctx->config.heartbeat_ms * 1000000};

    if (ctx->config.root[0] == '\0')
        return sfab_ctx_fail(
            ctx, SFAB_ERR_CONFIG,
            "rank %u of %u does not know where to meet the others: set "
            "SFAB_ROOT=host:port of rank 0, or start the program with `sfab run -n %u`",
            ctx->rank, ctx->size, ctx->size);
    int rc = sfab_config_parse_root(ctx->config.root, host, sizeof host, &config.port, &ctx->err);
    if (rc == 0)
        rc = get_secret(ctx, &config.secret);
    if (rc == 0 && ctx->rank == 0 && !ctx->config.root_served)
        rc = serve(ctx, config.port, &config.secret);
    if (rc == 0)
        rc = sfab_boot_join(&config, sfab_ctx_events(ctx), &ctx->boot, &ctx->err);
    explicit_bzero(&config.secret, sizeof config.secret);
    return rc;
}
