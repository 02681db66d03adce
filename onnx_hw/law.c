/* The least solution of the firing law, as in timing.py, compiled. */
#include <stdint.h>

typedef struct {
    int64_t other;        /* the track that is waited for */
    const int32_t *index; /* per event here, the event there, or -1 */
    int64_t delay;
} Wait;

typedef struct {
    int64_t count, done;  /* events in all, events known */
    int64_t *times;
    const uint8_t *ready; /* trace of a sink, or NULL */
    int64_t ready_length;
    int64_t waits;
    const Wait *wait;
} Track;

/* Find as many events of one track as possible. */
static void advance(Track *tracks, Track *track)
{
    int64_t k = track->done, t, j, w, cause, previous = k ? track->times[k - 1] : -1;
    for (; k < track->count; k++) {
        t = previous + 1;
        for (w = 0; w < track->waits; w++) {
            const Wait *wait = &track->wait[w];
            j = wait->index[k];
            if (j < 0)
                continue;
            if (j >= tracks[wait->other].done)
                goto blocked;
            cause = tracks[wait->other].times[j] + wait->delay;
            if (cause > t)
                t = cause;
        }
        if (track->ready)
            while (t < track->ready_length && !track->ready[t])
                t++;
        track->times[k] = previous = t;
    }
blocked:
    track->done = k;
}

/* Advance every track until none can. */
#ifdef __cplusplus
extern "C"
#endif
void law_solve(Track *tracks, int64_t count)
{
    for (int progress = 1; progress;) {
        progress = 0;
        for (int64_t k = 0; k < count; k++) {
            int64_t before = tracks[k].done;
            advance(tracks, &tracks[k]);
            progress |= tracks[k].done > before;
        }
    }
}
