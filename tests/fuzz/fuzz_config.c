/* fuzz_config.c - any environment through the settings' parser (fabric/config.h), and any text
 * through the one of SFAB_ROOT.
 *
 * The input is an environment: lines end at a zero byte or a newline. What is taken must be what a
 * second reading of its own listing gives; what is refused leaves the output alone and has a
 * sentence. */
#include "fabric/config.h"
#include "fabric/log.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

unsigned long sfab_fuzz_taken;

enum { LINES_MAX = 64, INPUT_MAX = 8192 };

/* Copies the input into text and cuts it into lines; the array ends with NULL. */
static void cut(const uint8_t *data, size_t size, char *text, char **lines)
{
    size_t count = 0;

    memcpy(text, data, size);
    text[size] = '\0';
    for (char *at = text; at <= text + size && count < LINES_MAX; at += strlen(at) + 1) {
        char *end = strchr(at, '\n');

        if (end != NULL)
            *end = '\0';
        lines[count++] = at;
    }
    lines[count] = NULL;
}

/* A listing of settings, in the form of an environment. The secret is not shown, so not listed. */
struct listing {
    char text[LINES_MAX * (SFAB_CONFIG_TEXT_BYTES + 64)];
    size_t used;
    char *lines[LINES_MAX + 1];
    size_t count;
};

static void list(const char *name, const char *value, const char *origin, const char *help,
                 void *arg)
{
    struct listing *l = arg;
    size_t room = sizeof l->text - l->used;

    MUST(origin[0] != '\0' && help[0] != '\0' && l->count < LINES_MAX);
    if (strcmp(name, "SFAB_SECRET") == 0)
        return;
    int bytes = snprintf(l->text + l->used, room, "%s=%s", name, value);
    MUST(bytes > 0 && (size_t)bytes < room);
    l->lines[l->count++] = l->text + l->used;
    l->used += (size_t)bytes + 1;
}

static void list_all(const struct sfab_config *config, struct listing *l)
{
    l->used = l->count = 0;
    sfab_config_visit(config, list, l);
    l->lines[l->count] = NULL;
}

static void read_again(const struct sfab_config *config)
{
    static struct listing first, second;
    struct sfab_config again;
    struct sfab_err err = {0};

    list_all(config, &first);
    MUST(sfab_config_load(NULL, first.lines, &again, &err) == 0);
    list_all(&again, &second);
    MUST(first.used == second.used && memcmp(first.text, second.text, first.used) == 0);
}

static void fuzz_environment(char **lines)
{
    struct sfab_config config, untouched;
    struct sfab_err err = {0};

    memset(&config, 0x5a, sizeof config);
    untouched = config;
    int rc = sfab_config_load(NULL, lines, &config, &err);
    if (rc != 0) {
        MUST(rc < 0 && err.text[0] != '\0');
        MUST(memcmp(&config, &untouched, sizeof config) == 0);
        return;
    }
    sfab_fuzz_taken++;
    MUST(config.size >= 1 && config.rank >= 0 && config.rank < config.size);
    MUST(config.radix != 1 && config.radix >= 0 && config.radix <= 64);
    read_again(&config);
}

static void fuzz_root(const char *root)
{
    char host[64];
    uint16_t port = 0;
    struct sfab_err err = {0};

    memset(host, 0x5a, sizeof host);
    int rc = sfab_config_parse_root(root, host, sizeof host, &port, &err);
    if (rc != 0) {
        MUST(rc == SFAB_ERR_CONFIG && err.text[0] != '\0' && port == 0 && host[0] == 0x5a);
        return;
    }
    sfab_fuzz_taken++;
    MUST(port > 0 && host[0] != '\0' && memchr(host, 0, sizeof host) != NULL);
    MUST(strstr(root, host) != NULL && strlen(host) < strlen(root));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *lines[LINES_MAX + 1];

    if (size > INPUT_MAX)
        return 0;
    char *text = malloc(size + 1);
    MUST(text != NULL);
    sfab_log_set_level(SFAB_LOG_ERROR); /* misspelt names are warned of, and most are */
    cut(data, size, text, lines);
    fuzz_environment(lines);
    for (char **line = lines; *line != NULL; line++) {
        const char *value = strchr(*line, '=');

        fuzz_root(value != NULL ? value + 1 : *line);
    }
    free(text);
    return 0;
}
