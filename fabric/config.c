/* config.c - the table of settings, and how a value of each kind is read.
 *
 * Pure: reads an environment array and an attribute struct, touches nothing else. */
#include "fabric/config.h"
#include "fabric/log.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

enum kind { NUMBER, TEXT, SECRET, CHOICE };

struct setting {
    const char *name;
    enum kind kind;
    size_t offset;
    const char *fallback;
    int64_t min, max;    /* NUMBER */
    const char *choices; /* CHOICE: "a|b|c", in the order of its enum */
    const char *help;
};

#define AT(field) offsetof(struct sfab_config, field)

static const struct setting table[] = {
    {"SFAB_RANK", NUMBER, AT(rank), "-1", -1, INT32_MAX, NULL, "this process's rank, from 0"},
    {"SFAB_SIZE", NUMBER, AT(size), "-1", -1, INT32_MAX, NULL, "ranks in the job"},
    {"SFAB_ROOT", TEXT, AT(root), "", 0, 0, NULL,
     "host:port of the rendezvous; served by rank 0 unless a launcher serves it"},
    {"SFAB_ROOT_SERVED", CHOICE, AT(root_served), "no", 0, 0, "no|yes",
     "yes: a launcher serves the rendezvous; no: rank 0 does"},
    {"SFAB_SECRET", SECRET, AT(secret), "", 0, 0, NULL, "the job's secret, the same on every rank"},
    {"SFAB_SECRET_FILE", TEXT, AT(secret_file), "", 0, 0, NULL,
     "a file that holds the job's secret, instead of SFAB_SECRET"},
    {"SFAB_NODE", TEXT, AT(node), "", 0, 0, NULL,
     "pretended node: ranks that name different ones share no memory"},
    {"SFAB_HOST", TEXT, AT(host), "", 0, 0, NULL, "name of this host in messages (hostname)"},
    {"SFAB_BOOT_TIMEOUT_MS", NUMBER, AT(boot_timeout_ms), "30000", 1, INT32_MAX, NULL,
     "how long sfab_open waits for all ranks"},
    {"SFAB_HEARTBEAT_MS", NUMBER, AT(heartbeat_ms), "1000", 100, INT32_MAX, NULL,
     "a host, or a connection, that acknowledges nothing for so long is lost"},
    {"SFAB_CLOSE_TIMEOUT_MS", NUMBER, AT(close_timeout_ms), "30000", 1, INT32_MAX, NULL,
     "how long sfab_close waits for the others"},
    {"SFAB_TRANSPORT", TEXT, AT(transport), "auto", 0, 0, NULL,
     "auto (shm within a node, verbs between), or the ones to use: shm, verbs"},
    {"SFAB_BARRIER", CHOICE, AT(barrier), "auto", 0, 0, "auto|dissemination|central",
     "barrier algorithm"},
    {"SFAB_RADIX", NUMBER, AT(radix), "0", 0, 64, NULL,
     "radix of the dissemination, 2 to 64; 0: automatic"},
    {"SFAB_WAIT", CHOICE, AT(wait), "auto", 0, 0, "auto|spin|yield|block",
     "how waiting begins: spin, yield the CPU, or sleep at once"},
    {"SFAB_SPIN_US", NUMBER, AT(spin_us), "-1", -1, 1000000000, NULL,
     "microseconds to spin before yielding; -1: automatic"},
    {"SFAB_YIELD_US", NUMBER, AT(yield_us), "-1", -1, 1000000000, NULL,
     "microseconds to yield before sleeping; -1: automatic"},
    {"SFAB_VERBS_DEVICE", TEXT, AT(verbs_device), "", 0, 0, NULL, "RDMA device, such as mlx5_0"},
    {"SFAB_VERBS_PORT", NUMBER, AT(verbs_port), "0", 0, 255, NULL,
     "its port; 0: the first active one"},
    {"SFAB_VERBS_GID_INDEX", NUMBER, AT(verbs_gid_index), "-1", -1, 65535, NULL,
     "index in its GID table; -1: chosen by looking"},
    {"SFAB_VERBS_MTU", NUMBER, AT(verbs_mtu), "0", 0, 4096, NULL,
     "path MTU: 256, 512, 1024, 2048, 4096; 0: the port's"},
    {"SFAB_VERBS_TIMEOUT", NUMBER, AT(verbs_timeout), "15", 1, 31, NULL,
     "acknowledge timeout t: 4.096 us * 2^t a try"},
    {"SFAB_VERBS_RETRY", NUMBER, AT(verbs_retry), "6", 0, 7, NULL,
     "tries before a peer is taken for dead (7 is for ever on SoftRoCE)"},
    {"SFAB_VERBS_RNR_RETRY", NUMBER, AT(verbs_rnr_retry), "7", 0, 7, NULL,
     "receiver-not-ready retries"},
    {"SFAB_VERBS_SQ_DEPTH", NUMBER, AT(verbs_sq_depth), "128", 8, 32768, NULL,
     "send queue entries a queue pair"},
    {"SFAB_VERBS_INLINE", NUMBER, AT(verbs_inline), "128", 0, 1024, NULL,
     "inline bytes asked of the device"},
    {"SFAB_VERBS_CM", CHOICE, AT(verbs_cm), "boot", 0, 0, "boot|rdmacm",
     "who connects queue pairs: the rendezvous, or librdmacm"},
    {"SFAB_LOG", CHOICE, AT(log), "warn", 0, 0, "error|warn|info|debug", "what goes to stderr"},
};

enum { SETTINGS = sizeof table / sizeof table[0] };

_Static_assert(sizeof table / sizeof table[0] <= sizeof(((struct sfab_config *)0)->origin),
               "an origin for each setting");

/* Index of the choice that equals value, or -1. */
static int64_t find_choice(const char *choices, const char *value)
{
    size_t len = strlen(value);
    int64_t index = 0;

    for (const char *at = choices; len > 0 && at != NULL; index++) {
        const char *end = strchr(at, '|');
        size_t have = end != NULL ? (size_t)(end - at) : strlen(at);

        if (have == len && strncmp(at, value, len) == 0)
            return index;
        at = end != NULL ? end + 1 : NULL;
    }
    return -1;
}

static int set_number(const struct setting *s, const char *value, int64_t *out,
                      struct sfab_err *err)
{
    char *end = NULL;

    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (value[0] == '\0' || isspace((unsigned char)value[0]) || *end != '\0' || errno != 0 ||
        number < s->min || number > s->max)
        return sfab_fail(
            err, SFAB_ERR_CONFIG,
            "%s=\"%.80s\" cannot be used: it takes a whole number from %lld to %lld (%s)", s->name,
            value, (long long)s->min, (long long)s->max, s->help);
    *out = number;
    return 0;
}

static int set_text(const struct setting *s, const char *value, char *out, struct sfab_err *err)
{
    size_t len = strlen(value);

    if (len >= SFAB_CONFIG_TEXT_BYTES)
        return sfab_fail(err, SFAB_ERR_CONFIG,
                         "%s cannot be used: it is %zu bytes long, the limit is %d", s->name, len,
                         SFAB_CONFIG_TEXT_BYTES - 1);
    memcpy(out, value, len + 1);
    return 0;
}

static int set(struct sfab_config *config, const struct setting *s, const char *value,
               enum sfab_origin origin, struct sfab_err *err)
{
    void *field = (char *)config + s->offset;
    int rc = 0;

    switch (s->kind) {
    case NUMBER:
        rc = set_number(s, value, field, err);
        break;
    case TEXT:
    case SECRET:
        rc = set_text(s, value, field, err);
        break;
    case CHOICE: {
        int64_t choice = find_choice(s->choices, value);

        if (choice < 0)
            return sfab_fail(err, SFAB_ERR_CONFIG,
                             "%s=\"%.80s\" cannot be used: it takes one of %s (%s)", s->name, value,
                             s->choices, s->help);
        *(int64_t *)field = choice;
        break;
    }
    }
    if (rc == 0)
        config->origin[s - table] = (unsigned char)origin;
    return rc;
}

/* Sets from "NAME=value". Names that are not ours: 0 and *known false. */
static int set_pair(struct sfab_config *config, const char *pair, enum sfab_origin origin,
                    bool *known, struct sfab_err *err)
{
    const char *equals = strchr(pair, '=');
    size_t len = equals != NULL ? (size_t)(equals - pair) : 0;

    *known = false;
    for (size_t i = 0; len > 0 && i < SETTINGS; i++)
        if (strlen(table[i].name) == len && strncmp(table[i].name, pair, len) == 0) {
            *known = true;
            return set(config, &table[i], equals + 1, origin, err);
        }
    return 0;
}

static const struct setting *find(const char *name)
{
    for (size_t i = 0; i < SETTINGS; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    abort(); /* a name in this file that is not in the table */
}

/* Variables that belong to tests and scripts, not to the library. */
static bool is_foreign(const char *pair)
{
    static const char *const prefixes[] = {"SFAB_SOFTROCE", "SFAB_TEST_", "SFAB_BENCH_"};

    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncmp(pair, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

static int load_environment(char *const *environment, struct sfab_config *config,
                            struct sfab_err *err)
{
    for (; *environment != NULL; environment++) {
        bool known;

        if (strncmp(*environment, "SFAB_", 5) != 0)
            continue;
        int rc = set_pair(config, *environment, SFAB_ORIGIN_ENVIRONMENT, &known, err);
        if (rc != 0)
            return rc;
        if (!known && !is_foreign(*environment))
            sfab_log(SFAB_LOG_WARN,
                     "%.*s is set in the environment, but there is no such setting; `sfab info` "
                     "lists them",
                     (int)strcspn(*environment, "="), *environment);
    }
    return 0;
}

static int load_number(struct sfab_config *config, const char *name, int value,
                       struct sfab_err *err)
{
    char text[16];

    if (value == -1)
        return 0;
    snprintf(text, sizeof text, "%d", value);
    return set(config, find(name), text, SFAB_ORIGIN_PROGRAM, err);
}

static int load_attr(const sfab_attr *attr, struct sfab_config *config, struct sfab_err *err)
{
    int rc = load_number(config, "SFAB_RANK", attr->rank, err);

    if (rc == 0)
        rc = load_number(config, "SFAB_SIZE", attr->size, err);
    if (rc == 0 && attr->root != NULL)
        rc = set(config, find("SFAB_ROOT"), attr->root, SFAB_ORIGIN_PROGRAM, err);
    if (rc == 0 && attr->secret != NULL)
        rc = set(config, find("SFAB_SECRET"), attr->secret, SFAB_ORIGIN_PROGRAM, err);
    for (const char *const *pair = attr->settings; rc == 0 && pair != NULL && *pair != NULL;
         pair++) {
        bool known;

        rc = set_pair(config, *pair, SFAB_ORIGIN_PROGRAM, &known, err);
        if (rc == 0 && !known)
            rc = sfab_fail(err, SFAB_ERR_CONFIG,
                           "the program's setting \"%.80s\" cannot be used: there is no setting of "
                           "that name; `sfab info` lists them",
                           *pair);
    }
    return rc;
}

/* What no single value shows. */
static int check(struct sfab_config *config, struct sfab_err *err)
{
    static const int64_t mtus[] = {0, 256, 512, 1024, 2048, 4096};
    bool good = false;

    for (size_t i = 0; i < sizeof mtus / sizeof mtus[0]; i++)
        good = good || config->verbs_mtu == mtus[i];
    if (!good)
        return sfab_fail(
            err, SFAB_ERR_CONFIG,
            "SFAB_VERBS_MTU=%lld cannot be used: it takes 256, 512, 1024, 2048 or 4096",
            (long long)config->verbs_mtu);
    if (config->radix == 1)
        return sfab_fail(err, SFAB_ERR_CONFIG,
                         "SFAB_RADIX=1 cannot be used: a dissemination needs a radix of 2 or more");
    if (config->size == 0)
        return sfab_fail(err, SFAB_ERR_CONFIG,
                         "SFAB_SIZE=0 cannot be used: a job has at least one rank");
    if (config->size == -1 && config->rank > 0)
        return sfab_fail(
            err, SFAB_ERR_CONFIG,
            "SFAB_RANK=%lld is set but SFAB_SIZE is not: set both, or start the program "
            "with `sfab run -n N`",
            (long long)config->rank);
    if (config->size == -1)
        config->size = 1;
    if (config->size == 1 && config->rank == -1)
        config->rank = 0;
    if (config->rank == -1)
        return sfab_fail(
            err, SFAB_ERR_CONFIG,
            "SFAB_SIZE=%lld is set but SFAB_RANK is not: every process needs a rank of "
            "its own, from 0 to %lld",
            (long long)config->size, (long long)config->size - 1);
    if (config->rank >= config->size)
        return sfab_fail(err, SFAB_ERR_CONFIG,
                         "rank %lld cannot be used in a job of %lld: ranks go from 0 to %lld",
                         (long long)config->rank, (long long)config->size,
                         (long long)config->size - 1);
    return 0;
}

int sfab_config_load(const sfab_attr *attr, char *const *environment, struct sfab_config *config,
                     struct sfab_err *err)
{
    static const sfab_attr nothing = {.struct_bytes = sizeof nothing, .rank = -1, .size = -1};
    struct sfab_config loaded = {0};
    int rc = 0;

    if (attr == NULL)
        attr = &nothing;
    if (attr->struct_bytes != sizeof *attr)
        return sfab_fail(
            err, -EINVAL,
            "sfab_attr.struct_bytes is %zu, this library's is %zu: call sfab_attr_init "
            "first, and compile against the header of this library",
            attr->struct_bytes, sizeof *attr);
    for (size_t i = 0; rc == 0 && i < SETTINGS; i++)
        rc = set(&loaded, &table[i], table[i].fallback, SFAB_ORIGIN_DEFAULT, err);
    if (rc == 0)
        rc = load_environment(environment != NULL ? environment : environ, &loaded, err);
    if (rc == 0)
        rc = load_attr(attr, &loaded, err);
    if (rc == 0)
        rc = check(&loaded, err);
    if (rc == 0)
        *config = loaded;
    return rc;
}

void sfab_config_visit(const struct sfab_config *config, sfab_setting_visit visit, void *arg)
{
    static const char *const origins[] = {"default", "environment", "program"};

    for (size_t i = 0; i < SETTINGS; i++) {
        const struct setting *s = &table[i];
        const char *field = (const char *)config + s->offset;
        char text[32];
        const char *shown = text;

        if (s->kind == TEXT)
            shown = field;
        else if (s->kind == SECRET)
            shown = field[0] != '\0' ? "(set)" : "";
        else if (s->kind == NUMBER)
            snprintf(text, sizeof text, "%lld", (long long)*(const int64_t *)(const void *)field);
        else {
            const char *at = s->choices;

            for (int64_t n = *(const int64_t *)(const void *)field; n > 0; n--)
                at = strchr(at, '|') + 1;
            snprintf(text, sizeof text, "%.*s", (int)strcspn(at, "|"), at);
        }
        visit(s->name, shown, origins[config->origin[i]], s->help, arg);
    }
}

int sfab_config_parse_root(const char *root, char *host, size_t cap, uint16_t *port,
                           struct sfab_err *err)
{
    const char *colon = strrchr(root, ':');
    const char *start = root;
    size_t len = colon != NULL ? (size_t)(colon - root) : 0;
    char *end = NULL;
    unsigned long number = 0;

    if (len >= 2 && root[0] == '[' && root[len - 1] == ']') {
        start++;
        len -= 2;
    } else if (memchr(root, ':', len) != NULL) {
        len = 0; /* an IPv6 address without brackets: which colon is the port's? */
    }
    if (colon != NULL && isdigit((unsigned char)colon[1]))
        number = strtoul(colon + 1, &end, 10);
    if (len == 0 || len >= cap || end == NULL || *end != '\0' || number == 0 || number > 65535)
        return sfab_fail(
            err, SFAB_ERR_CONFIG,
            "SFAB_ROOT=\"%.80s\" cannot be used: it takes host:port or [IPv6]:port with a "
            "port from 1 to 65535",
            root);
    memcpy(host, start, len);
    host[len] = '\0';
    *port = (uint16_t)number;
    return 0;
}
