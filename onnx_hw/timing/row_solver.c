/* The firing law, frame by frame and in little memory: see row_solver.py. */
#include "solver_repetition.h"

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
    return (BACK + 1) * size_of_memory(law);
}

void law_begin(Law *law, int64_t frames)
{
    begin(law, frames);
}

/* Solve one frame more. Returns how many further frames are like it; -1 if it does not come to an end, -2 without memory. */
int64_t law_frame(Law *law)
{
    law->frame++;
    law->awake_count = 0;
    forget(law);
    for (int64_t b = 0; b < law->bounds_count; b++) {
        Bound *bound = &law->bounds[b];
        bound->frame_slack = NEVER;
        bound->frame_binds = bound->asleep = 0;
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
        for (int64_t back = 1; back <= BACK; back++) {
            const int64_t rounds = back < BACK ? back : law->anchored - 1; /* since what is compared with */
            const int64_t times =
                rounds < back || rounds >= law->remembered ? 0 : repeats(law, back, (law->rounds - law->fed) / rounds);
            if (times) {
                repeat(law, back, times);
                law->fed += times * rounds;
                forget(law);
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

void law_end(Law *law)
{
    give_back(law);
}

#ifdef __cplusplus
}
#endif
