/* node.c - who shares a node with whom, and whether the node has a CPU for each.
 *
 * Two ranks share memory when they run under one kernel (boot id), see each other's processes (the same
 * PID namespace, through which memfd mappings are opened) and pretend no different node. */
#include "fabric/cpus.h"
#include "fabric/ctx.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void read_line(const char *path, char *text, size_t cap)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, cap - 1) : 0;

    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

int sfab_node_identity(struct sfab_ctx *ctx, struct sfab_identity *out)
{
    char boot_id[48], pid_ns[48] = "";
    ssize_t len = readlink("/proc/self/ns/pid", pid_ns, sizeof pid_ns - 1);

    pid_ns[len > 0 ? len : 0] = '\0';
    read_line("/proc/sys/kernel/random/boot_id", boot_id, sizeof boot_id);
    *out = (struct sfab_identity){.pid = (uint32_t)getpid(),
                                  .incarnation = ctx->incarnation,
                                  .radix = (uint32_t)ctx->config.radix,
                                  .barrier = (uint32_t)ctx->config.barrier};
    snprintf(out->host, sizeof out->host, "%s", ctx->host);
    snprintf(out->transport, sizeof out->transport, "%.31s", ctx->config.transport);
    int need = snprintf(out->node, sizeof out->node, "%s|%s|%s", boot_id, pid_ns, ctx->config.node);
    if (need < 0 || (size_t)need >= sizeof out->node)
        return sfab_ctx_fail(
            ctx, SFAB_ERR_CONFIG,
            "SFAB_NODE=\"%.40s...\" cannot be used: it is too long (at most 64 bytes)",
            ctx->config.node);
    sfab_cpus_mine(&out->cpus);
    return 0;
}

/* The lowest rank of each rank's node. Linear in ranks times nodes. */
static uint32_t find_nodes(struct sfab_ctx *ctx)
{
    uint32_t nodes = 0;

    for (uint32_t rank = 0; rank < ctx->size; rank++) {
        uint32_t node = rank;

        for (uint32_t other = 0; other < rank; other++)
            if (ctx->peers[other].node == other &&
                strcmp(ctx->identities[other].node, ctx->identities[rank].node) == 0) {
                node = other;
                break;
            }
        ctx->peers[rank].node = node;
        nodes += node == rank;
    }
    return nodes;
}

/* Whether the ranks of this machine fit its CPUs: pretended nodes share them, so they count by kernel
 * (the part of the node's name before the first bar). */
static void find_crowding(struct sfab_ctx *ctx)
{
    const struct sfab_cpu_mask **masks = calloc(ctx->size, sizeof *masks);
    const char *mine = ctx->identities[ctx->rank].node;
    size_t kernel = strcspn(mine, "|") + 1;
    uint32_t count = 0;

    ctx->crowded = true; /* what costs least if it is wrong */
    if (masks == NULL)
        return;
    for (uint32_t rank = 0; rank < ctx->size; rank++)
        if (strncmp(ctx->identities[rank].node, mine, kernel) == 0)
            masks[count++] = &ctx->identities[rank].cpus;
    ctx->local_ranks = count;
    ctx->local_cpus_fit = sfab_cpus_fit(masks, count);
    ctx->crowded = ctx->local_cpus_fit < count;
    free(masks);
}

void sfab_node_layout(struct sfab_ctx *ctx)
{
    ctx->nodes = find_nodes(ctx);
    find_crowding(ctx);
}
