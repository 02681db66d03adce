/* The least solution of the firing law, as in solver.py, compiled.
 *
 * Of each track only the stops are here: operations that wait for another track, or that another one waits for. All
 * others fire in the cycle after the one before.
 */
#include <stdint.h>

typedef struct {
    const int32_t *at, *after; /* stops in a frame, here and there; NULL for 0, 1, 2, ... */
    int64_t tokens;            /* how many a frame has */
    int64_t other;             /* the track that is waited for */
    int64_t delay, lag;
    /* the next token: its stop here, its number in the frame, the first stop of the frame */
    int64_t stop, here, here_frame;
    /* the token it waits for: its number in the frame, less than 0 if there is none, the first stop of the frame */
    int64_t there, there_frame;
} Bound;

typedef struct {
    const int32_t *gaps; /* operations from the stop before to each stop of a frame; NULL for 1, 1, 1, ... */
    int64_t stops;       /* of a frame */
    int64_t count, done; /* stops in all, stops known */
    int64_t *cycles;     /* of the stops */
    int64_t place;       /* of the next stop in its frame */
    int64_t previous;    /* cycle of the last known stop */
    const uint8_t *ready; /* trace of a sink, or NULL */
    int64_t ready_length;
    int64_t bounds;
    Bound *bound;
    /* tracks that wait for this one, as a list; the stop of another track that this one waits for */
    int64_t first_asleep, next_asleep, lacks;
} Track;

static inline int64_t entry(const int32_t *list, int64_t k)
{
    return list ? list[k] : k;
}

/* Find as many stops of one track as possible; the track that is waited for, or -1 when all are known. */
static int64_t advance(Track *tracks, Track *track)
{
    const int64_t bounds = track->bounds, stops = track->stops, count = track->count;
    Bound *const bound = track->bound;
    int64_t k = track->done, place = track->place, previous = track->previous, blocker = -1;

    for (; k < count; k++) {
        int64_t t = previous + (track->gaps ? track->gaps[place] : 1);
        for (int64_t b = 0; b < bounds; b++) {
            if (bound[b].stop != k || bound[b].there < 0)
                continue;
            const Track *other = &tracks[bound[b].other];
            int64_t cause = bound[b].there_frame + entry(bound[b].after, bound[b].there), bounded;
            if (cause >= other->done && other != track) { /* its own earlier ones are known */
                track->lacks = cause;
                blocker = bound[b].other;
                goto end;
            }
            bounded = other->cycles[cause] + bound[b].delay;
            if (bounded > t)
                t = bounded;
        }
        if (track->ready)
            while (t < track->ready_length && !track->ready[t])
                t++;
        track->cycles[k] = previous = t;
        if (++place == stops)
            place = 0;
        for (int64_t b = 0; b < bounds; b++) {
            if (bound[b].stop != k)
                continue;
            if (++bound[b].here == bound[b].tokens) {
                bound[b].here = 0;
                bound[b].here_frame += stops;
            }
            bound[b].stop = bound[b].here_frame + entry(bound[b].at, bound[b].here);
            if (++bound[b].there == bound[b].tokens) {
                bound[b].there = 0;
                bound[b].there_frame += tracks[bound[b].other].stops;
            }
        }
    }
end:
    track->done = k;
    track->place = place;
    track->previous = previous;
    return blocker;
}

#ifdef __cplusplus
extern "C" {
#endif

/* Set every bound to its first token. */
void law_start(Track *tracks, int64_t count)
{
    for (int64_t k = 0; k < count; k++)
        for (int64_t b = 0; b < tracks[k].bounds; b++) {
            Bound *bound = &tracks[k].bound[b];
            bound->stop = entry(bound->at, 0);
            bound->here = bound->here_frame = bound->there_frame = 0;
            bound->there = -bound->lag;
        }
}

/* Advance every track until none can.
 *
 * ``awake`` has room for all tracks. The one that woke last goes first, and in the beginning those nearest the input:
 * what it reads was written a moment ago.
 */
void law_advance(Track *tracks, int64_t count, int64_t *awake)
{
    int64_t length = 0;

    for (int64_t k = count - 1; k >= 0; k--) {
        tracks[k].first_asleep = -1;
        if (tracks[k].done < tracks[k].count)
            awake[length++] = k;
    }
    while (length) {
        int64_t k = awake[--length], before = tracks[k].done, blocker = advance(tracks, &tracks[k]);
        if (blocker >= 0) {
            tracks[k].next_asleep = tracks[blocker].first_asleep;
            tracks[blocker].first_asleep = k;
        }
        if (tracks[k].done == before)
            continue;
        for (int64_t *link = &tracks[k].first_asleep; *link >= 0;) {
            int64_t waiting = *link;
            if (tracks[waiting].lacks >= tracks[k].done) {
                link = &tracks[waiting].next_asleep;
                continue;
            }
            *link = tracks[waiting].next_asleep;
            awake[length++] = waiting;
        }
    }
}

#ifdef __cplusplus
}
#endif
