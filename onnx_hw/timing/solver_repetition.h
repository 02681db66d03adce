/* Repetitions within a frame: what some rounds did, done again and again without a look at each event. */
#pragma once

#include "solver_events.h"

/* What is remembered: of a track the last event and its cycle; of a bound its lists, its queue, and what the round said. */
enum { OF_A_TRACK = 2, OF_A_LIST = 5, TAKEN = 2 * OF_A_LIST, PUT, UNBOUND, SLACK, BINDS, OF_A_BOUND };

#define MOST_KEPT (1 << 22) /* tokens that are kept for comparison alone */

static int64_t size_of_memory(const Law *law)
{
    return law->tracks_count * OF_A_TRACK + law->bounds_count * OF_A_BOUND;
}

static int64_t *memory_of(const Law *law, int64_t round)
{
    return law->memory + round % BACK * size_of_memory(law);
}

/* The anchor: one more round that is remembered, until twice as many have gone by as before it. Who compares every later
 * round with it finds a repetition of any length; that of a bubble, which comes once in as many tokens as a FIFO holds,
 * may take hundreds of rounds. SLACK and BINDS are those of all rounds since. */
static int64_t *anchor_of(const Law *law)
{
    return law->memory + BACK * size_of_memory(law);
}

static void keep_list(int64_t *memory, const List *list)
{
    memory[0] = list->kind;
    memory[1] = list->turn;
    memory[2] = list->place;
    memory[3] = list->base;
    memory[4] = list->next;
}

/* No repetition reaches back behind this round. */
static void forget(Law *law)
{
    law->remembered = law->anchored = 0;
    law->anchor_lasts = BACK;
    for (int64_t b = 0; b < law->bounds_count; b++) {
        law->bounds[b].slack = NEVER;
        law->bounds[b].binds = 0;
    }
}

/* Keep the state after a round, and what was waited for in it; the next one begins. */
static void remember(Law *law)
{
    const int64_t size = size_of_memory(law), skipped = law->tracks_count * OF_A_TRACK;
    const int64_t oldest = law->remembered >= BACK - 1 ? law->remembered + 1 : 0;
    const int64_t *old = law->remembered ? memory_of(law, oldest) + skipped : NULL;
    int64_t *const newest = memory_of(law, law->remembered), *memory = newest;
    int64_t *const anchor = law->anchored ? anchor_of(law) + skipped : NULL;
    int64_t kept = 0;
    for (int64_t k = 0; k < law->tracks_count; k++) {
        *memory++ = law->tracks[k].operation;
        *memory++ = law->tracks[k].previous;
    }
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
        if (anchor) {
            int64_t *of_all = anchor + k * OF_A_BOUND;
            of_all[SLACK] = least(of_all[SLACK], bound->slack);
            of_all[BINDS] |= bound->binds;
            bound->kept = least(bound->kept, of_all[TAKEN]);
        }
        kept += bound->taken - bound->kept;
        bound->frame_slack = least(bound->frame_slack, bound->slack);
        bound->frame_binds |= bound->binds;
        bound->slack = NEVER;
        bound->binds = 0;
    }
    law->remembered++;
    if (!law->anchored || ++law->anchored > law->anchor_lasts || kept > MOST_KEPT) {
        law->anchor_lasts = kept > MOST_KEPT ? BACK : 2 * law->anchor_lasts;
        law->anchored = 1;
        memcpy(anchor_of(law), newest, size * sizeof *newest);
        for (int64_t k = 0; k < law->bounds_count; k++) {
            anchor_of(law)[skipped + k * OF_A_BOUND + SLACK] = NEVER;
            anchor_of(law)[skipped + k * OF_A_BOUND + BINDS] = 0;
        }
    }
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

/* What was remembered after the round that is so many ago, BACK for the anchor: the tracks, and then the bounds. */
static const int64_t *before(const Law *law, int64_t back)
{
    return back < BACK ? memory_of(law, law->remembered - 1 - back) : anchor_of(law);
}

/* The least slack of a bound in the rounds since then, and whether a firing waited for it alone. */
static int64_t slack_of(const Law *law, int64_t bound, int64_t back, int64_t *binds)
{
    const int64_t skipped = law->tracks_count * OF_A_TRACK + bound * OF_A_BOUND;
    const int64_t *anchor = anchor_of(law) + skipped;
    int64_t slack = back < BACK ? NEVER : anchor[SLACK];
    *binds = back < BACK ? 0 : anchor[BINDS];
    for (int64_t k = 0; back < BACK && k < back; k++) {
        const int64_t *round = memory_of(law, law->remembered - 1 - k) + skipped;
        slack = least(slack, round[SLACK]);
        *binds |= round[BINDS];
    }
    return slack;
}

/* How often all that happened since then happens again, ``most`` times at most; 0 if that is not sure. */
static int64_t repeats(const Law *law, int64_t back, int64_t most)
{
    const int64_t *tracks = before(law, back), *bounds = tracks + law->tracks_count * OF_A_TRACK;
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
        const int64_t shift = shift_of(bound, old, taken, made);
        int64_t binds, slack = slack_of(law, b, back, &binds);
        if (put != taken || shift != made)
            times = least(times, (bound->put - bound->taken) / taken);
        if (binds && shift != pause)
            return 0;
        if (shift > pause)
            times = least(times, slack / (shift - pause));
    }
    for (int64_t b = 0; times && b < law->bounds_count; b++) { /* last, since it takes longest */
        const Bound *bound = &law->bounds[b];
        const int64_t *old = bounds + b * OF_A_BOUND;
        const int64_t taken = bound->taken - old[TAKEN];
        const int64_t made = law->tracks[bound->there].previous - tracks[2 * bound->there + 1];
        if (taken && !is_regular(bound, old, taken, shift_of(bound, old, taken, made)))
            return 0;
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

/* Let all that happened since then happen so many times again. */
static void repeat(Law *law, int64_t back, int64_t times)
{
    const int64_t *tracks = before(law, back), *bounds = tracks + law->tracks_count * OF_A_TRACK;
    for (int64_t b = 0; b < law->bounds_count; b++) {
        Bound *bound = &law->bounds[b];
        const int64_t *old = bounds + b * OF_A_BOUND;
        const int64_t taken = bound->taken - old[TAKEN], made = bound->put - old[PUT];
        const int64_t pause = law->tracks[bound->here].previous - tracks[2 * bound->here + 1];
        const int64_t shift = law->tracks[bound->there].previous - tracks[2 * bound->there + 1];
        const int64_t later = shift_of(bound, old, taken, shift);
        if (taken && later > pause) {
            int64_t binds, slack = slack_of(law, b, back, &binds);
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
}
