/* config.h - every setting of a context, in one struct, from one table.
 *
 * Each is an SFAB_ variable; the table in config.c gives its type, default, range and help line, and
 * is what `sfab info` prints. Order of precedence: the program (sfab_attr), the environment, the
 * default. A value that cannot be used is refused with a sentence that names the variable, the value
 * and what is allowed; an unknown SFAB_ variable earns a warning (a misspelt one is worse than
 * none). */
#ifndef SFAB_FABRIC_CONFIG_H
#define SFAB_FABRIC_CONFIG_H

#include "fabric/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SFAB_CONFIG_TEXT_BYTES 256

enum sfab_barrier_choice { SFAB_BARRIER_AUTO, SFAB_BARRIER_DISSEMINATION, SFAB_BARRIER_CENTRAL };
enum sfab_wait_choice { SFAB_WAIT_AUTO, SFAB_WAIT_SPIN, SFAB_WAIT_YIELD, SFAB_WAIT_BLOCK };
enum sfab_verbs_cm { SFAB_VERBS_CM_BOOT, SFAB_VERBS_CM_RDMACM };

struct sfab_config {
    /* the job */
    int64_t rank, size; /* -1 and 1 where not set */
    char root[SFAB_CONFIG_TEXT_BYTES];
    int64_t root_served; /* 1: by a launcher; 0: by rank 0 */
    char secret[SFAB_CONFIG_TEXT_BYTES];
    char secret_file[SFAB_CONFIG_TEXT_BYTES];
    char node
        [SFAB_CONFIG_TEXT_BYTES]; /* pretended node: ranks with different ones share no memory */
    char host[SFAB_CONFIG_TEXT_BYTES]; /* this host's name in sentences */
    int64_t boot_timeout_ms, close_timeout_ms, heartbeat_ms;
    /* transports */
    char transport[SFAB_CONFIG_TEXT_BYTES]; /* "auto", or names separated by commas */
    /* barrier */
    int64_t barrier; /* enum sfab_barrier_choice */
    int64_t radix;   /* 0: automatic */
    /* waiting */
    int64_t wait;              /* enum sfab_wait_choice */
    int64_t spin_us, yield_us; /* -1: automatic */
    /* verbs */
    char verbs_device[SFAB_CONFIG_TEXT_BYTES];
    int64_t verbs_port;      /* 0: the first active one */
    int64_t verbs_gid_index; /* -1: chosen by looking */
    int64_t verbs_mtu;       /* bytes; 0: the port's active MTU */
    int64_t verbs_timeout;   /* local ACK timeout t: 4.096 us * 2^t */
    int64_t verbs_retry;     /* transport retries, 0..7 */
    int64_t verbs_rnr_retry;
    int64_t verbs_sq_depth; /* send queue entries a queue pair */
    int64_t verbs_inline;   /* bytes asked for */
    int64_t verbs_cm;       /* enum sfab_verbs_cm */
    /* talk */
    int64_t log; /* enum sfab_log_level */

    /* where each table entry's value came from, in table order */
    unsigned char origin[48]; /* enum sfab_origin */
};

enum sfab_origin { SFAB_ORIGIN_DEFAULT, SFAB_ORIGIN_ENVIRONMENT, SFAB_ORIGIN_PROGRAM };

/* Fills *config. environ-like `environment` (NULL: the process's own) is looked through for SFAB_
 * names; attr may be NULL. Returns 0, or SFAB_ERR_CONFIG with the sentence in *err. */
int sfab_config_load(const sfab_attr *attr, char *const *environment, struct sfab_config *config,
                     struct sfab_err *err);

/* Calls visit for each setting in table order. */
void sfab_config_visit(const struct sfab_config *config, sfab_setting_visit visit, void *arg);

/* Splits "host:port" or "[v6]:port" into host (of cap bytes) and port. 0 or SFAB_ERR_CONFIG. */
int sfab_config_parse_root(const char *root, char *host, size_t cap, uint16_t *port,
                           struct sfab_err *err);

#endif
