/* The firing law in windows of cycles, every operation of every track: see event_windows.py. */
#include "solver_events.h"

typedef struct {
    const uint8_t *ready; /* trace of a sink, or NULL */
    int64_t ready_length, mask; /* of a cycle, its place in the trace: one that begins again has a power of two of them */
    const int64_t *offers; /* of a source: cycles, ascending; NULL for all others */
    int64_t offers_count, offered;
    int64_t *cycles, room, count; /* operations that fired in this window */
} Window;

static void fired(Law *law, Window *window, int64_t first, int64_t count)
{
    if (window->count + count > window->room) {
        int64_t room = 2 * (window->count + count) + 64;
        int64_t *cycles = (int64_t *)realloc(window->cycles, room * sizeof *cycles);
        if (!cycles) {
            law->failed = 1;
            return;
        }
        window->cycles = cycles;
        window->room = room;
    }
    for (int64_t k = 0; k < count; k++)
        window->cycles[window->count++] = first + k;
}

/* Give the tokens of a source that are offered before a cycle. */
static void offer(Law *law, Track *track, Window *window, int64_t until)
{
    for (; window->offered < window->offers_count && window->offers[window->offered] < until; window->offered++)
        for (int64_t b = 0; b < track->serves_count; b++) {
            Bound *bound = &law->bounds[track->serves[b]];
            if (bound->after.next == window->offered) {
                put(law, bound, window->offers[window->offered]);
                go_on(&bound->after, track->operations);
            }
        }
}

/* Find the operations of one track before a cycle; whether there may be later ones. */
static int advance_until(Law *law, Track *track, Window *window, int64_t until)
{
    const int64_t operations = track->operations, limit = law->frame * operations;
    while (!law->failed) {
        const int64_t event = least(next_event(law, track), limit);
        int64_t between = event - track->operation - 1; /* they wait for nobody, and nobody for them */
        const int64_t before = until - 1 - track->previous;
        const int later = between > before;
        if (later)
            between = before;
        fired(law, window, track->previous + 1, between);
        track->operation += between;
        track->previous += between;
        if (later)
            return 1;
        if (event == limit)
            return 0;
        int64_t cycle = track->previous + 1;
        for (int64_t k = 0; k < track->waits_count; k++) {
            Bound *bound = &law->bounds[track->waits[k]];
            if (bound->at.next != event || bound->unbound)
                continue;
            if (bound->taken == bound->put) {
                bound->asleep = 1;
                return 0;
            }
            const int64_t bounded = seen(bound, bound->taken) + bound->delay;
            if (bounded > cycle)
                cycle = bounded;
        }
        while (cycle < window->ready_length && !window->ready[cycle & window->mask])
            cycle++;
        if (cycle >= until)
            return 1;
        for (int64_t k = 0; k < track->waits_count; k++) {
            Bound *bound = &law->bounds[track->waits[k]];
            if (bound->at.next != event)
                continue;
            if (bound->unbound)
                bound->unbound--;
            else
                bound->kept = ++bound->taken;
            go_on(&bound->at, operations);
        }
        for (int64_t k = 0; k < track->serves_count; k++) {
            Bound *bound = &law->bounds[track->serves[k]];
            while (bound->after.next == event) {
                put(law, bound, cycle);
                go_on(&bound->after, operations);
            }
        }
        fired(law, window, cycle, 1);
        track->operation = event;
        track->previous = cycle;
    }
    return 0;
}

#ifdef __cplusplus
extern "C" {
#endif

/* Begin a solution of so many frames. */
void window_begin(Law *law, Window *windows, int64_t frames)
{
    begin(law, frames);
    law->frame = frames;
    for (int64_t k = 0; k < law->tracks_count; k++) {
        law->tracks[k].operation -= law->tracks[k].once;
        law->tracks[k].previous -= law->tracks[k].once;
        windows[k].offered = windows[k].count = 0;
    }
}

/* Find all operations before a cycle that are not found yet. Returns 1 if later ones may come, 0 if none does, -2 without
 * memory. */
int64_t window_advance(Law *law, Window *windows, int64_t until)
{
    int64_t later = 0;
    law->awake_count = 0;
    for (int64_t b = 0; b < law->bounds_count; b++)
        law->bounds[b].asleep = 0;
    for (int64_t k = 0; k < law->tracks_count; k++) {
        windows[k].count = 0;
        if (windows[k].offers) {
            offer(law, &law->tracks[k], &windows[k], until);
            later |= windows[k].offered < windows[k].offers_count;
        } else
            law->awake[law->awake_count++] = k;
    }
    while (law->awake_count && !law->failed) {
        const int64_t k = law->awake[--law->awake_count];
        later |= advance_until(law, &law->tracks[k], &windows[k], until);
    }
    return law->failed ? -2 : later;
}

/* The bound that a track waits for in its next operation, counted from ``after`` on; -1 without one. */
int64_t window_blocked(const Law *law, int64_t track, int64_t after)
{
    const Track *here = &law->tracks[track];
    const int64_t event = next_event(law, here);
    for (int64_t k = after; k < here->waits_count; k++) {
        const Bound *bound = &law->bounds[here->waits[k]];
        if (bound->at.next == event && !bound->unbound && bound->taken == bound->put)
            return k;
    }
    return -1;
}

/* The next operation of a track that waits for others, or that others wait for, counted through all frames. */
int64_t window_next(const Law *law, int64_t track)
{
    return next_event(law, &law->tracks[track]);
}

void window_end(Law *law, Window *windows)
{
    give_back(law);
    for (int64_t k = 0; k < law->tracks_count; k++) {
        free(windows[k].cycles);
        windows[k].cycles = NULL;
        windows[k].room = 0;
    }
}

#ifdef __cplusplus
}
#endif
