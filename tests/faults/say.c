/* say.c - what the victim saw, as lines of JSON on standard output. Each is one write of less than
 * PIPE_BUF bytes, so that one that is killed leaves whole lines. */
#include "tests/faults/victim.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

struct line {
    size_t len;
    char text[PIPE_BUF];
};

int64_t victim_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void add(struct line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct line *l, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    int n = vsnprintf(l->text + l->len, sizeof l->text - l->len, format, ap);
    va_end(ap);
    if (n > 0 && l->len + (size_t)n < sizeof l->text)
        l->len += (size_t)n;
}

static void add_text(struct line *l, const char *name, const char *text)
{
    add(l, ",\"%s\":\"", name);
    for (const unsigned char *c = (const unsigned char *)text; *c != 0; c++)
        if (*c == '"' || *c == '\\' || *c < 0x20)
            add(l, "\\u%04x", *c);
        else
            add(l, "%c", *c);
    add(l, "\"");
}

static void begin(struct line *l, const char *event)
{
    l->len = 0;
    add(l, "{\"event\":\"%s\",\"at\":%lld", event, (long long)victim_now_ns());
}

static void begin_at(struct line *l, struct victim *v, const char *event)
{
    begin(l, event);
    add(l, ",\"gen\":%ld,\"turn\":%ld,\"done\":%llu", v->generation, v->turn,
        (unsigned long long)v->done);
    add_text(l, "op", v->op == NULL ? "" : v->op);
}

static void end(struct line *l)
{
    add(l, "}\n");
    if (write(STDOUT_FILENO, l->text, l->len) != (ssize_t)l->len)
        _exit(98); /* nobody reads any more */
}

void victim_say(const char *event)
{
    struct line l;

    begin(&l, event);
    end(&l);
}

void victim_say_pid(const char *event, long pid)
{
    struct line l;

    begin(&l, event);
    add(&l, ",\"pid\":%ld", pid);
    end(&l);
}

void victim_say_code(struct victim *v, const char *event, int rc)
{
    char text[VICTIM_TEXT_BYTES] = "";
    int failed[VICTIM_RANKS_MAX], count = 0;
    struct line l;

    begin_at(&l, v, event); /* before anything else: the time is part of it */
    sfab_last_error(v->ctx, text, sizeof text);
    add(&l, ",\"code\":%d", rc);
    add_text(&l, "text", rc == 0 ? "" : text);
    if (v->group != NULL)
        sfab_group_failed(v->group, failed, VICTIM_RANKS_MAX, &count);
    add(&l, ",\"failed\":[");
    for (int i = 0; i < count && i < VICTIM_RANKS_MAX; i++)
        add(&l, "%s%d", i == 0 ? "" : ",", failed[i]);
    add(&l, "]");
    end(&l);
}

static const char *doing_name(sfab_doing doing)
{
    switch (doing) {
    case SFAB_DOING_COMPUTING:
        return "computing";
    case SFAB_DOING_WAITING:
        return "waiting";
    case SFAB_DOING_STOPPED:
        return "stopped";
    case SFAB_DOING_UNKNOWN:
        return "unknown";
    }
    return "none of the four";
}

void victim_say_late(struct victim *v)
{
    char text[VICTIM_TEXT_BYTES] = "";
    sfab_late late[8];
    int count = 0;
    struct line l;

    begin_at(&l, v, "late");
    sfab_last_error(v->ctx, text, sizeof text);
    add_text(&l, "text", text);
    int rc = sfab_barrier_late(v->group, late, 8, &count);
    add(&l, ",\"code\":%d,\"late\":[", rc);
    for (int i = 0; rc == 0 && i < count && i < 8; i++) {
        add(&l, "%s{\"rank\":%d,\"last\":%llu,\"still_ns\":%lld,\"waits_for\":%d",
            i == 0 ? "" : ",", late[i].rank, (unsigned long long)late[i].last_episode,
            (long long)late[i].still_ns, late[i].waits_for);
        add_text(&l, "host", late[i].host);
        add_text(&l, "doing", doing_name(late[i].doing));
        add(&l, "}");
    }
    add(&l, "]");
    end(&l);
}

void victim_say_group(struct victim *v)
{
    struct line l;

    begin_at(&l, v, "group");
    add(&l, ",\"me\":%d,\"members\":[", sfab_group_rank(v->group));
    for (int i = 0; i < sfab_group_size(v->group); i++)
        add(&l, "%s%d", i == 0 ? "" : ",", sfab_group_member_rank(v->group, i));
    add(&l, "]");
    end(&l);
}

void victim_say_wrong(struct victim *v, const char *what)
{
    struct line l;

    begin_at(&l, v, "wrong");
    add_text(&l, "text", what);
    end(&l);
}
