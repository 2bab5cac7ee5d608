/* job.c - ranks as processes or threads. */
#include "tests/support/job.h"
#include "fabric/boot/boot.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int complain(const char *what, int rank)
{
    char text[1024];

    sfab_last_error(NULL, text, sizeof text);
    fprintf(stderr, "FAILED rank %d: %s: %s\n", rank, what, text);
    return 1;
}

int sfab_job_process(sfab_job_rank work, void *arg)
{
    sfab_ctx *ctx;

    if (sfab_open(NULL, &ctx) != 0)
        return complain("sfab_open", -1);
    int failures = work(ctx, arg);
    if (sfab_close(ctx) != 0)
        failures += complain("sfab_close", -1);
    return failures;
}

struct thread {
    pthread_t id;
    int rank, ranks, failures;
    char root[32];
    const char *const *settings;
    sfab_job_rank work;
    void *arg;
};

static const char secret[] = "of threads in one process";

static void *run_thread(void *arg)
{
    struct thread *t = arg;
    const char *settings[16] = {"SFAB_ROOT_SERVED=yes"};
    sfab_attr attr;
    sfab_ctx *ctx;

    for (int i = 0; t->settings != NULL && t->settings[i] != NULL && i < 14; i++)
        settings[i + 1] = t->settings[i];
    sfab_attr_init(&attr);
    attr.rank = t->rank;
    attr.size = t->ranks;
    attr.root = t->root;
    attr.secret = secret;
    attr.settings = settings;
    if (sfab_open(&attr, &ctx) != 0) {
        t->failures = complain("sfab_open", t->rank);
        return NULL;
    }
    t->failures = t->work(ctx, t->arg);
    if (sfab_close(ctx) != 0)
        t->failures += complain("sfab_close", t->rank);
    return NULL;
}

int sfab_job_threads(int ranks, const char *const *settings, sfab_job_rank work, void *arg)
{
    struct sfab_boot_server_config config = {
        .listen_host = "127.0.0.1", .size = (uint32_t)ranks, .join_timeout_ns = 60000000000u};
    struct sfab_boot_server *server;
    struct sfab_err err;
    uint16_t port;
    int failures = 0;

    memcpy(config.secret.bytes, secret, strlen(secret));
    config.secret.len_bytes = strlen(secret);
    if (sfab_boot_server_start(&config, &server, &port, &err) != 0) {
        fprintf(stderr, "FAILED: %s\n", err.text);
        return 1;
    }
    struct thread *threads = calloc((size_t)ranks, sizeof *threads);
    for (int i = 0; threads != NULL && i < ranks; i++) {
        threads[i] = (struct thread){
            .rank = i, .ranks = ranks, .settings = settings, .work = work, .arg = arg};
        snprintf(threads[i].root, sizeof threads[i].root, "127.0.0.1:%u", port);
        pthread_create(&threads[i].id, NULL, run_thread, &threads[i]);
    }
    for (int i = 0; threads != NULL && i < ranks; i++) {
        pthread_join(threads[i].id, NULL);
        failures += threads[i].failures;
    }
    free(threads);
    sfab_boot_server_stop(server);
    return failures;
}
