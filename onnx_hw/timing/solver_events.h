/* Events of tracks, each computed once its causes are known.
 *
 * Of each track only events are looked at: operations that wait for another track, or that another one waits for. All
 * others fire in the cycle after the one before. A bound is a queue of cycles: its tokens are put in by the track that
 * is waited for, and taken out by the one that waits.
 */
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NEVER INT64_MAX
#define BACK 8 /* so many rounds are remembered */

typedef struct {
    int64_t first, count, step, length;
    const int64_t *pattern; /* numbers first + turn * step + pattern[place] */
} Turns;

typedef struct {
    const Turns *turns;
    int64_t kinds;
    int64_t kind, turn, place, base; /* where it is; first operation of the frame */
    int64_t next;                    /* the number there, counted through all frames; NEVER without numbers */
    Turns now;                       /* of this kind; its first number is that of this turn, counted likewise */
} List;

typedef struct {
    List at, after;
    int64_t here, there, delay, lag;
    int64_t *cycles, room;     /* the queue: a ring of so many tokens, a power of two */
    int64_t taken, put, kept;  /* counted from the beginning; from ``kept`` on they are still in the ring */
    int64_t unbound;           /* tokens that still wait for nothing */
    int64_t slack, binds;      /* of this round: the least wait too little, and whether a firing waited for it alone */
    int64_t frame_slack, frame_binds;
    int64_t asleep;            /* the track waits for a token */
    int64_t *before, before_count, before_unbound; /* the queue at the end of the frame before */
} Bound;

typedef struct {
    int64_t operations;
    int64_t once;    /* before the first frame, one a cycle; they are not counted among the others */
    int64_t sources; /* rounds of a source, that are put in turn by turn; 0 for all others */
    int64_t pace;    /* of a source: cycles of a round */
    const int64_t *waits, *serves; /* its own bounds; those of others that wait for it */
    int64_t waits_count, serves_count;
    int64_t operation, previous;   /* the last event and its cycle */
    int64_t before;                /* cycle of the last event in the frame before */
} Track;

typedef struct {
    Track *tracks;
    Bound *bounds;
    int64_t tracks_count, bounds_count, rounds, interval, frame, fed;
    int64_t *awake, awake_count;
    int64_t *memory, remembered; /* BACK snapshots, and the anchor; how many rounds are in them */
    int64_t anchored, anchor_lasts; /* rounds of the anchor and since it, and when it is given up; 0 without one */
    int64_t failed;              /* there was no memory */
} Law;

static inline void go_to(List *list)
{
    list->now = list->turns[list->kind];
    list->now.first += list->base + list->turn * list->now.step;
    list->next = list->now.first + list->now.pattern[list->place];
}

static inline void go_on(List *list, int64_t operations)
{
    if (++list->place == list->now.length) {
        list->place = 0;
        list->now.first += list->now.step;
        if (++list->turn == list->now.count) {
            list->turn = 0;
            if (++list->kind == list->kinds) {
                list->kind = 0;
                list->base += operations;
            }
            go_to(list);
            return;
        }
    }
    list->next = list->now.first + list->now.pattern[list->place];
}

/* Begin, with lags and delays of their own: ``frames`` are the most that will be asked for. */
static void begin(Law *law, int64_t frames)
{
    law->frame = law->failed = 0;
    for (int64_t b = 0; b < law->bounds_count; b++) {
        Bound *bound = &law->bounds[b];
        int64_t tokens = 0;
        for (int64_t k = 0; k < bound->at.kinds; k++)
            tokens += bound->at.turns[k].count * bound->at.turns[k].length;
        bound->taken = bound->put = bound->kept = bound->asleep = 0;
        bound->unbound = bound->lag;
        bound->before_count = 0;
        for (List *list = &bound->at; list; list = list == &bound->at ? &bound->after : NULL) {
            list->kind = list->turn = list->place = list->base = 0;
            if (tokens && bound->lag < frames * tokens)
                go_to(list);
            else
                list->next = NEVER; /* it never holds anybody up */
        }
    }
    for (int64_t k = 0; k < law->tracks_count; k++) {
        law->tracks[k].operation = -1;
        law->tracks[k].previous = law->tracks[k].once - 1;
    }
}

/* Give back what the queues hold. */
static void give_back(Law *law)
{
    for (int64_t b = 0; b < law->bounds_count; b++) {
        free(law->bounds[b].cycles);
        free(law->bounds[b].before);
        law->bounds[b].cycles = law->bounds[b].before = NULL;
        law->bounds[b].room = 0;
    }
}

static void put(Law *law, Bound *bound, int64_t cycle)
{
    if (bound->put - bound->kept == bound->room) {
        int64_t room = bound->room ? 2 * bound->room : 16;
        int64_t *cycles = (int64_t *)malloc(room * sizeof *cycles);
        if (!cycles) {
            law->failed = 1;
            return;
        }
        for (int64_t k = bound->kept; k < bound->put; k++)
            cycles[k & (room - 1)] = bound->cycles[k & (bound->room - 1)];
        free(bound->cycles);
        bound->cycles = cycles;
        bound->room = room;
    }
    bound->cycles[bound->put++ & (bound->room - 1)] = cycle;
    if (bound->asleep) {
        bound->asleep = 0;
        law->awake[law->awake_count++] = bound->here;
    }
}

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t seen(const Bound *bound, int64_t token)
{
    return bound->cycles[token & (bound->room - 1)];
}

/* The number of the next event of a track. */
static inline int64_t next_event(const Law *law, const Track *track)
{
    int64_t next = NEVER;
    for (int64_t k = 0; k < track->waits_count; k++)
        if (law->bounds[track->waits[k]].at.next < next)
            next = law->bounds[track->waits[k]].at.next;
    for (int64_t k = 0; k < track->serves_count; k++)
        if (law->bounds[track->serves[k]].after.next < next)
            next = law->bounds[track->serves[k]].after.next;
    return next;
}

static void feed(Law *law, Track *track)
{
    const int64_t a_round = track->operations / track->sources;
    const int64_t limit = (law->frame - 1) * track->operations + law->fed * a_round * (track->sources / law->rounds);
    for (int64_t k = track->operation + 1; k < limit; k++) {
        int64_t place = k % track->operations;
        track->previous = (law->frame - 1) * law->interval + place / a_round * track->pace +
                          place % a_round * track->pace / a_round;
        track->operation = k;
        for (int64_t b = 0; b < track->serves_count; b++) {
            Bound *bound = &law->bounds[track->serves[b]];
            if (bound->after.next == k) {
                put(law, bound, track->previous);
                go_on(&bound->after, track->operations);
            }
        }
    }
}

/* Find as many events of one track as possible. */
static void advance(Law *law, Track *track)
{
    const int64_t operations = track->operations, limit = law->frame * operations;
    const int64_t *const waits = track->waits, *const serves = track->serves;
    const int64_t waits_count = track->waits_count, serves_count = track->serves_count;
    Bound *const bounds = law->bounds;
    int64_t operation = track->operation, previous = track->previous, event = next_event(law, track);
    while (event < limit && !law->failed) {
        const int64_t own = previous + (event - operation);
        int64_t cycle = own, next = NEVER;
        for (int64_t k = 0; k < waits_count; k++) {
            Bound *bound = &bounds[waits[k]];
            if (bound->at.next != event || bound->unbound)
                continue;
            if (bound->taken == bound->put) {
                bound->asleep = 1;
                goto end;
            }
            const int64_t bounded = seen(bound, bound->taken) + bound->delay;
            if (bounded > cycle)
                cycle = bounded;
        }
        for (int64_t k = 0; k < waits_count; k++) {
            Bound *bound = &bounds[waits[k]];
            if (bound->at.next == event) {
                if (bound->unbound)
                    bound->unbound--;
                else {
                    const int64_t slack = cycle - seen(bound, bound->taken++) - bound->delay;
                    if (slack < bound->slack)
                        bound->slack = slack;
                    if (!slack && cycle > own)
                        bound->binds = 1;
                }
                go_on(&bound->at, operations);
            }
            next = least(next, bound->at.next);
        }
        for (int64_t k = 0; k < serves_count; k++) {
            Bound *bound = &bounds[serves[k]];
            while (bound->after.next == event) {
                put(law, bound, cycle);
                go_on(&bound->after, operations);
            }
            next = least(next, bound->after.next);
        }
        operation = event;
        previous = cycle;
        event = next;
    }
end:
    track->operation = operation;
    track->previous = previous;
}

static void exhaust(Law *law)
{
    while (law->awake_count && !law->failed)
        advance(law, &law->tracks[law->awake[--law->awake_count]]);
}
