/* rendezvous.c - serves the rendezvous of one job and nothing else, so that any rank may be killed and
 * the others go on: `rendezvous SIZE [HOST]`, the secret in SFAB_SECRET. Prints its port; ends when its
 * standard input does. */
#include "fabric/boot/boot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *secret = getenv("SFAB_SECRET");
    struct sfab_boot_server_config config = {.listen_host = argc > 2 ? argv[2] : "127.0.0.1",
                                             .size = (uint32_t)atoi(argc > 1 ? argv[1] : "0"),
                                             .join_timeout_ns = 30000000000u};
    struct sfab_boot_server *server;
    struct sfab_err err;
    uint16_t port;
    char byte;

    if (secret == NULL || strlen(secret) > sizeof config.secret.bytes) {
        fprintf(stderr, "rendezvous: SFAB_SECRET is not set, or too long\n");
        return 2;
    }
    const char *join_ms = getenv("SFAB_BOOT_TIMEOUT_MS");
    if (join_ms != NULL)
        config.join_timeout_ns = strtoull(join_ms, NULL, 10) * 1000000;
    config.secret.len_bytes = strlen(secret);
    memcpy(config.secret.bytes, secret, config.secret.len_bytes);
    if (sfab_boot_server_start(&config, &server, &port, &err) != 0) {
        fprintf(stderr, "rendezvous: %s\n", err.text);
        return 1;
    }
    printf("%u\n", port);
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    sfab_boot_server_stop(server);
    return 0;
}
