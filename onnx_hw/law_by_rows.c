/* The firing law, frame by frame and in little memory: see law_by_rows.py.
 *
 * Of each track only events are looked at: operations that wait for another track, or that another one waits for. All
 * others fire in the cycle after the one before. A bound is a queue of cycles: its tokens are put in by the track that
 * is waited for, and taken out by the one that waits.
 */
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
    int64_t *memory, remembered; /* BACK snapshots */
    int64_t failed;              /* there was no memory */
} Law;

static inline void go_to(List *list)
{
    const Turns *turns = &list->turns[list->kind];
    list->next = list->base + turns->first + list->turn * turns->step + turns->pattern[list->place];
}

static inline void go_on(List *list, int64_t operations)
{
    const Turns *turns = &list->turns[list->kind];
    if (++list->place == turns->length) {
        list->place = 0;
        if (++list->turn == turns->count) {
            list->turn = 0;
            if (++list->kind == list->kinds) {
                list->kind = 0;
                list->base += operations;
            }
            turns = &list->turns[list->kind];
        }
    }
    list->next = list->base + turns->first + list->turn * turns->step + turns->pattern[list->place];
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
    const int64_t limit = law->frame * track->operations;
    while (!law->failed) {
        const int64_t event = next_event(law, track);
        if (event >= limit)
            return;
        const int64_t own = track->previous + (event - track->operation);
        int64_t cycle = own;
        for (int64_t k = 0; k < track->waits_count; k++) {
            Bound *bound = &law->bounds[track->waits[k]];
            if (bound->at.next != event || bound->unbound)
                continue;
            if (bound->taken == bound->put) {
                bound->asleep = 1;
                return;
            }
            int64_t bounded = seen(bound, bound->taken) + bound->delay;
            if (bounded > cycle)
                cycle = bounded;
        }
        for (int64_t k = 0; k < track->waits_count; k++) {
            Bound *bound = &law->bounds[track->waits[k]];
            if (bound->at.next != event)
                continue;
            if (bound->unbound)
                bound->unbound--;
            else {
                int64_t slack = cycle - seen(bound, bound->taken++) - bound->delay;
                if (slack < bound->slack)
                    bound->slack = slack;
                if (!slack && cycle > own)
                    bound->binds = 1;
            }
            go_on(&bound->at, track->operations);
        }
        track->operation = event;
        track->previous = cycle;
        for (int64_t k = 0; k < track->serves_count; k++) {
            Bound *bound = &law->bounds[track->serves[k]];
            while (bound->after.next == event) {
                put(law, bound, cycle);
                go_on(&bound->after, track->operations);
            }
        }
    }
}

static void exhaust(Law *law)
{
    while (law->awake_count && !law->failed)
        advance(law, &law->tracks[law->awake[--law->awake_count]]);
}

/* ---- repetitions within a frame --------------------------------------------------------------------------------- */

/* What is remembered: of a track the last event and its cycle; of a bound its lists, its queue, and what the round said. */
enum { OF_A_TRACK = 2, OF_A_LIST = 5, TAKEN = 2 * OF_A_LIST, PUT, UNBOUND, SLACK, BINDS, OF_A_BOUND };

static int64_t size_of_memory(const Law *law)
{
    return law->tracks_count * OF_A_TRACK + law->bounds_count * OF_A_BOUND;
}

static int64_t *memory_of(const Law *law, int64_t round)
{
    return law->memory + round % BACK * size_of_memory(law);
}

static void keep_list(int64_t *memory, const List *list)
{
    memory[0] = list->kind;
    memory[1] = list->turn;
    memory[2] = list->place;
    memory[3] = list->base;
    memory[4] = list->next;
}

/* Keep the state after a round, and what was waited for in it; the next one begins. */
static void remember(Law *law)
{
    int64_t *memory = memory_of(law, law->remembered);
    for (int64_t k = 0; k < law->tracks_count; k++) {
        *memory++ = law->tracks[k].operation;
        *memory++ = law->tracks[k].previous;
    }
    const int64_t oldest = law->remembered >= BACK - 1 ? law->remembered + 1 : 0;
    const int64_t *old = law->remembered ? memory_of(law, oldest) + law->tracks_count * OF_A_TRACK : NULL;
    for (int64_t k = 0; k < law->bounds_count; k++, memory += OF_A_BOUND) {
        Bound *bound = &law->bounds[k];
        keep_list(memory, &bound->at);
        keep_list(memory + OF_A_LIST, &bound->after);
        memory[TAKEN] = bound->taken;
        memory[PUT] = bound->put;
        memory[UNBOUND] = bound->unbound;
        memory[SLACK] = bound->slack;
        memory[BINDS] = bound->binds;
        bound->kept = old ? old[k * OF_A_BOUND + TAKEN] : bound->taken;
        if (bound->slack < bound->frame_slack)
            bound->frame_slack = bound->slack;
        bound->frame_binds |= bound->binds;
        bound->slack = NEVER;
        bound->binds = 0;
    }
    law->remembered++;
}

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* How often a list can go on as it did since ``old``, while its track advances by ``moved`` operations each time. */
static int64_t list_repeats(const List *list, const int64_t *old, int64_t moved, int64_t operation)
{
    if (list->next == NEVER || !moved)
        return NEVER;
    if (list->next == old[4])
        return (list->next - 1 - operation) / moved;
    if (list->kind != old[0] || list->place != old[2] || list->base != old[3] || list->next - old[4] != moved)
        return 0;
    return (list->turns[list->kind].count - 1 - list->turn) / (list->turn - old[1]);
}

/* Whether the tokens of a bound, from those that were taken since ``old`` on, come ``shift`` cycles after those taken one
 * repetition earlier. */
static int is_regular(const Bound *bound, const int64_t *old, int64_t taken, int64_t shift)
{
    for (int64_t k = old[TAKEN] + taken; k < bound->put; k++)
        if (seen(bound, k) - seen(bound, k - taken) != shift)
            return 0;
    return 1;
}

/* How much later the tokens come that are taken next than those taken since ``old``; ``made``, when none is there yet. */
static inline int64_t shift_of(const Bound *bound, const int64_t *old, int64_t taken, int64_t made)
{
    return bound->put > bound->taken && taken ? seen(bound, bound->taken) - seen(bound, old[TAKEN]) : made;
}

/* How often all that happened in the last ``back`` rounds happens again, ``most`` times at most; 0 if that is not sure. */
static int64_t repeats(const Law *law, int64_t back, int64_t most)
{
    const int64_t *tracks = memory_of(law, law->remembered - 1 - back), *bounds = tracks + law->tracks_count * OF_A_TRACK;
    int64_t times = most;
    for (int64_t b = 0; times && b < law->bounds_count; b++) {
        const Bound *bound = &law->bounds[b];
        const int64_t *old = bounds + b * OF_A_BOUND;
        const Track *here = &law->tracks[bound->here], *there = &law->tracks[bound->there];
        times = least(times, list_repeats(&bound->at, old, here->operation - tracks[2 * bound->here], here->operation));
        times = least(times, list_repeats(&bound->after, old + OF_A_LIST, there->operation - tracks[2 * bound->there],
                                          there->operation));
        const int64_t unbound = old[UNBOUND] - bound->unbound;
        if (unbound)
            times = bound->taken > old[TAKEN] ? 0 : least(times, bound->unbound / unbound);
    }
    for (int64_t b = 0; times && b < law->bounds_count; b++) {
        const Bound *bound = &law->bounds[b];
        const int64_t *old = bounds + b * OF_A_BOUND;
        const int64_t taken = bound->taken - old[TAKEN], put = bound->put - old[PUT];
        if (!taken)
            continue;
        const int64_t pause = law->tracks[bound->here].previous - tracks[2 * bound->here + 1];
        const int64_t made = law->tracks[bound->there].previous - tracks[2 * bound->there + 1];
        const int64_t waiting = bound->put - bound->taken;
        const int64_t shift = shift_of(bound, old, taken, made);
        if (!is_regular(bound, old, taken, shift))
            return 0;
        if (put != taken || shift != made)
            times = least(times, waiting / taken);
        int64_t slack = NEVER, binds = 0;
        for (int64_t k = 0; k < back; k++) {
            const int64_t *round = memory_of(law, law->remembered - 1 - k) + law->tracks_count * OF_A_TRACK + b * OF_A_BOUND;
            slack = least(slack, round[SLACK]);
            binds |= round[BINDS];
        }
        if (binds && shift != pause)
            return 0;
        if (shift > pause)
            times = least(times, slack / (shift - pause));
    }
    return times;
}

static void repeat_list(List *list, const int64_t *old, int64_t times)
{
    if (list->next == NEVER || list->next == old[4])
        return;
    list->turn += times * (list->turn - old[1]);
    go_to(list);
}

/* Let all that happened in the last ``back`` rounds happen so many times again. */
static void repeat(Law *law, int64_t back, int64_t times)
{
    const int64_t *tracks = memory_of(law, law->remembered - 1 - back), *bounds = tracks + law->tracks_count * OF_A_TRACK;
    for (int64_t b = 0; b < law->bounds_count; b++) {
        Bound *bound = &law->bounds[b];
        const int64_t *old = bounds + b * OF_A_BOUND;
        const int64_t taken = bound->taken - old[TAKEN], made = bound->put - old[PUT];
        const int64_t pause = law->tracks[bound->here].previous - tracks[2 * bound->here + 1];
        const int64_t shift = law->tracks[bound->there].previous - tracks[2 * bound->there + 1];
        const int64_t later = shift_of(bound, old, taken, shift);
        if (taken) {
            int64_t slack = NEVER;
            for (int64_t k = 0; k < back; k++)
                slack = least(slack, (memory_of(law, law->remembered - 1 - k) + law->tracks_count * OF_A_TRACK +
                                      b * OF_A_BOUND)[SLACK]);
            if (later > pause)
                bound->frame_slack = least(bound->frame_slack, slack - times * (later - pause));
        }
        if (taken && taken == made && later == shift) {
            for (int64_t k = bound->taken; k < bound->put; k++)
                bound->cycles[k & (bound->room - 1)] += times * shift;
        } else {
            const int64_t end = bound->put + times * made;
            while (bound->put < end && !law->failed)
                put(law, bound, seen(bound, bound->put - made) + shift);
            bound->taken += times * taken;
        }
        bound->unbound -= times * (old[UNBOUND] - bound->unbound);
        repeat_list(&bound->at, old, times);
        repeat_list(&bound->after, old + OF_A_LIST, times);
    }
    for (int64_t k = 0; k < law->tracks_count; k++) {
        Track *track = &law->tracks[k];
        track->operation += times * (track->operation - tracks[2 * k]);
        track->previous += times * (track->previous - tracks[2 * k + 1]);
    }
    law->fed += times * back;
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

/* How many further frames are sure to be like the newest one, later by as much as it is later than the one before. */
static int64_t frames_like_this(Law *law)
{
    int64_t times = law->frame > 1 ? NEVER : 0;
    for (int64_t b = 0; b < law->bounds_count; b++) {
        Bound *bound = &law->bounds[b];
        const int64_t count = bound->put - bound->taken;
        const int64_t shift = law->tracks[bound->there].previous - law->tracks[bound->there].before;
        const int64_t pause = law->tracks[bound->here].previous - law->tracks[bound->here].before;
        if (bound->at.next == NEVER)
            continue;
        if (count != bound->before_count || bound->unbound != bound->before_unbound)
            times = 0;
        for (int64_t k = 0; times && k < count; k++)
            if (seen(bound, bound->taken + k) != bound->before[k] + shift)
                times = 0;
        if (bound->frame_binds && shift != pause)
            times = 0;
        if (times && shift > pause)
            times = least(times, bound->frame_slack / (shift - pause));
        if (count > bound->before_count) {
            free(bound->before);
            bound->before = (int64_t *)malloc(count * sizeof *bound->before);
            if (!bound->before) {
                law->failed = 1;
                bound->before_count = 0;
                return 0;
            }
        }
        for (int64_t k = 0; k < count; k++)
            bound->before[k] = seen(bound, bound->taken + k);
        bound->before_count = count;
        bound->before_unbound = bound->unbound;
    }
    return times;
}

#ifdef __cplusplus
extern "C" {
#endif

int64_t law_memory(const Law *law)
{
    return BACK * size_of_memory(law);
}

/* Begin, with lags and delays of their own: ``frames`` are the most that will be asked for. */
void law_begin(Law *law, int64_t frames)
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
        law->tracks[k].operation = law->tracks[k].previous = -1;
    }
}

/* Solve one frame more. Returns how many further frames are like it; -1 if it does not come to an end, -2 without memory. */
int64_t law_frame(Law *law)
{
    law->frame++;
    law->remembered = law->awake_count = 0;
    for (int64_t b = 0; b < law->bounds_count; b++) {
        Bound *bound = &law->bounds[b];
        bound->slack = bound->frame_slack = NEVER;
        bound->binds = bound->frame_binds = bound->asleep = 0;
        bound->kept = bound->taken;
    }
    for (int64_t k = 0; k < law->tracks_count; k++) {
        law->tracks[k].before = law->tracks[k].previous;
        if (!law->tracks[k].sources)
            law->awake[law->awake_count++] = k;
    }
    exhaust(law);
    for (law->fed = 1; law->fed <= law->rounds && !law->failed; law->fed++) {
        for (int64_t k = 0; k < law->tracks_count; k++)
            if (law->tracks[k].sources)
                feed(law, &law->tracks[k]);
        exhaust(law);
        if (law->rounds < 4) { /* not worth the memory */
            for (int64_t b = 0; b < law->bounds_count; b++)
                law->bounds[b].kept = law->bounds[b].taken;
            continue;
        }
        remember(law);
        for (int64_t back = 1; back < BACK && back < law->remembered; back++) {
            const int64_t times = repeats(law, back, (law->rounds - law->fed) / back);
            if (times) {
                repeat(law, back, times);
                law->remembered = 0;
                for (int64_t b = 0; b < law->bounds_count; b++) {
                    law->bounds[b].slack = NEVER;
                    law->bounds[b].binds = 0;
                }
                remember(law);
                break;
            }
        }
    }
    for (int64_t b = 0; b < law->bounds_count; b++) {
        law->bounds[b].frame_slack = least(law->bounds[b].frame_slack, law->bounds[b].slack);
        law->bounds[b].frame_binds |= law->bounds[b].binds;
    }
    if (law->failed)
        return -2;
    for (int64_t k = 0; k < law->tracks_count; k++)
        if (next_event(law, &law->tracks[k]) < law->frame * law->tracks[k].operations)
            return -1;
    return frames_like_this(law);
}

/* Give back what the queues hold. */
void law_end(Law *law)
{
    for (int64_t b = 0; b < law->bounds_count; b++) {
        free(law->bounds[b].cycles);
        free(law->bounds[b].before);
        law->bounds[b].cycles = law->bounds[b].before = NULL;
        law->bounds[b].room = 0;
    }
}

#ifdef __cplusplus
}
#endif
