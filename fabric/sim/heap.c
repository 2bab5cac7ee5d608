/* heap.c - see heap.h. */
#include "fabric/sim/heap.h"

#include <stdbool.h>
#include <stdlib.h>

static bool before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void sim_heap_push(struct sim_heap *heap, uint64_t at, sim_fn *fn, void *arg, uint64_t value)
{
    if (heap->count == heap->cap) {
        heap->cap = heap->cap * 2 + 256;
        heap->events = realloc(heap->events, heap->cap * sizeof *heap->events);
        if (heap->events == NULL)
            abort();
    }
    struct sim_event new = {.at = at, .order = heap->order++, .fn = fn, .arg = arg, .value = value};
    size_t i = heap->count++;

    while (i > 0 && before(&new, &heap->events[(i - 1) / 2])) {
        heap->events[i] = heap->events[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap->events[i] = new;
}

struct sim_event sim_heap_pop(struct sim_heap *heap)
{
    struct sim_event *at = heap->events;
    struct sim_event first = at[0], last = at[--heap->count];
    size_t i = 0, child;

    while ((child = 2 * i + 1) < heap->count) {
        if (child + 1 < heap->count && before(&at[child + 1], &at[child]))
            child++;
        if (!before(&at[child], &last))
            break;
        at[i] = at[child];
        i = child;
    }
    at[i] = last;
    return first;
}
