// A machine that runs cycle by cycle, and what is counted on the way. What drives its inputs is up to whoever derives.
#pragma once
#include "interpreter.h"

// Nets in groups, whose toggles are counted in pairs of neighbouring cycles of the runs with one pattern of stalls. The
// distance between two pairs is random, because circuits repeat themselves in all periods.
struct Watch {
    std::vector<int32_t> nets;
    std::vector<int64_t> ends;       // of the groups, in nets
    std::vector<uint64_t> toggles;   // per group
    std::vector<Word> before;
    int64_t window = 0, gap = 1;     // cycles of a run that are watched; mean distance of two pairs
    int64_t next = 1;                // cycle that is compared with the one before
    int64_t pairs = 0;               // of all runs together
    int32_t pattern = 0;
    uint64_t random_state = 1;

    void schedule(int64_t cycle) {
        random_state = random_state * 6364136223846793005u + 1442695040888963407u;
        next = cycle + 1 + int64_t(random_state >> 33) % (2 * gap - 1);
    }
};

struct Simulation {
    Machine machine;
    Watch watch;
    int64_t cycle = 0;

    virtual ~Simulation() = default;

    // One cycle: set the inputs, settle, look, rising edge.
    virtual void step() = 0;

    // The runs whose toggles are counted in this cycle.
    virtual Word watched() const = 0;

    // After the cells have settled.
    void count_toggles();

    static void set(Word& word, int bit, bool value) {
        word = (word & ~(Word(1) << bit)) | Word(value) << bit;
    }

   private:
    void compare();
};

inline Simulation& simulation(void* handle) { return *static_cast<Simulation*>(handle); }
