// The cycle loop of runs in lockstep: in each, sources offer, sinks take, everything is recorded.
//
// Runs begin together and end alone; each has its own reset, so that a false start may be longer in one than in another.
#include "bench.h"

#include <exception>
#include <string>
#include <vector>

namespace {

enum Status { GO_ON = 0, FINISHED = 1, STUCK = 2, OUT_OF_CYCLES = 3 };

struct Source {
    int64_t tokens = 0;
    const uint32_t* payload = nullptr;  // tokens + 1 rows; the last one is driven while valid is low
    const int64_t* offers = nullptr;
    int64_t driven = -1;
};

struct Sink {
    int64_t expected = 0;
    int64_t trace_length = 0;
    int64_t mask = -1;  // of a cycle, its place in the trace: one that begins again has a power of two of them
    const uint8_t* trace = nullptr;
};

struct Log {
    std::vector<int64_t> cycles;
    std::vector<uint32_t> payload;
};

struct Run {
    std::vector<Source> sources;
    std::vector<Sink> sinks;
    std::vector<int64_t> taken;  // tokens so far, per source and sink
    std::vector<Log> logs;       // per port
    std::vector<uint32_t> fires;
    std::vector<uint8_t> state;  // per port: valid + 2 * ready, in the last cycle
    int64_t limit = 0, patience = 0, after = 0;
    int64_t false_start = 0;  // cycles until the second reset; 0 if it is over or there is no second one
    int64_t resetting = 0;    // cycles until cycle 0
    int64_t cycle = 0;
    int64_t quiet = 0;  // consecutive cycles without an event, unless the environment holds something back
    int64_t tail = -1;  // cycles left after the last expected token; negative before it
    bool held_back = false;
    Status status = OUT_OF_CYCLES;  // GO_ON during the run

    bool satisfied() const {
        for (size_t k = 0; k < sinks.size(); k++) {
            if (taken[sources.size() + k] < sinks[k].expected) return false;
        }
        return true;
    }

    void begin_reset(int64_t cycles) {
        resetting = cycles;
        taken.assign(taken.size(), 0);
        state.assign(state.size(), 0);
        for (Log& log : logs) log = Log();
        fires.clear();
        cycle = quiet = 0;
        tail = -1;
    }

    // Returns before a cycle whether there is another one.
    bool goes_on() {
        if (status != GO_ON) return false;
        if (resetting || false_start) return true;
        if (tail < 0 && satisfied()) tail = after;
        if (tail == 0) status = FINISHED;
        else if (cycle >= limit) status = tail >= 0 ? FINISHED : OUT_OF_CYCLES;
        return status == GO_ON;
    }

    // Returns after a cycle whether it was the last one.
    bool last() const { return status != GO_ON || tail == 0 || cycle >= limit; }

    // Called after a cycle, with or without an event.
    void count(bool event) {
        cycle++;
        if (tail > 0) {
            tail--;
        } else if (satisfied()) {
            tail = after;
        } else if (event) {
            quiet = 0;
        } else if (!held_back && ++quiet >= patience && !false_start) {
            status = STUCK;
        }
    }
};

struct Simulation {
    const Bench* bench;
    Run runs[RUNS];
    int64_t reset_cycles = 0, reset_delay = 0;
    std::string error;

    explicit Simulation(const uint32_t* tables) : bench(bench_open(tables)) {
        for (Run& run : runs) {
            run.sources.resize(bench->sources);
            run.sinks.resize(bench->sinks);
            run.taken.resize(bench->sources + bench->sinks);
            run.logs.resize(bench->sources + bench->sinks + bench->probes);
            run.state.resize(run.logs.size());
        }
    }
    ~Simulation() { bench_close(bench); }

    void drive(int r, bool live) {
        Run& run = runs[r];
        run.held_back = false;
        for (uint32_t k = 0; k < bench->sources; k++) {
            Source& source = run.sources[k];
            const Port& port = bench->ports[k];
            const int64_t next = run.taken[k];
            const bool more = next < source.tokens, valid = live && more && source.offers[next] <= run.cycle;
            run.held_back |= more && !valid;
            (*port.valid)[r] = valid;
            const int64_t row = valid ? next : source.tokens;
            if (row == source.driven || !source.payload) continue;
            source.driven = row;
            for (uint32_t w = 0; w < port.words; w++) port.payload[w][r] = source.payload[row * port.words + w];
        }
        for (uint32_t k = 0; k < bench->sinks; k++) {
            const Sink& sink = run.sinks[k];
            const bool ready = live && (run.cycle >= sink.trace_length || sink.trace[run.cycle & sink.mask]);
            run.held_back |= !ready;
            (*bench->ports[bench->sources + k].ready)[r] = ready;
        }
    }

    // Records transfers and firings of the live runs.
    void record(const V& live, V& event) {
        const uint32_t streams = bench->sources + bench->sinks + bench->probes;
        for (uint32_t k = 0; k < streams; k++) {
            const Port& port = bench->ports[k];
            const V moved = *port.valid & *port.ready & live;
            if (!any(moved)) continue;
            event |= moved;
            for (int r = 0; r < RUNS; r++) {
                if (!moved[r]) continue;
                Log& log = runs[r].logs[k];
                log.cycles.push_back(runs[r].cycle);
                const size_t at = log.payload.size();
                log.payload.resize(at + port.words);
                for (uint32_t w = 0; w < port.words; w++) log.payload[at + w] = port.payload[w][r];
                if (k < runs[r].taken.size()) runs[r].taken[k]++;
            }
        }
        for (uint32_t w = 0; w < bench->fire_words; w++) event |= bench->fires[w];
        for (int r = 0; r < RUNS; r++) {
            if (!live[r]) continue;
            std::vector<uint32_t>& fires = runs[r].fires;
            const size_t at = fires.size();
            fires.resize(at + bench->fire_words);
            for (uint32_t w = 0; w < bench->fire_words; w++) fires[at + w] = bench->fires[w][r];
        }
    }

    void remember_state(int r) {
        for (size_t k = 0; k < runs[r].state.size(); k++) {
            runs[r].state[k] = (*bench->ports[k].valid)[r] + 2 * (*bench->ports[k].ready)[r];
        }
    }

    // Simulates some cycles; returns false when all runs have ended.
    bool advance(int64_t cycles) {
        for (int64_t i = 0; i < cycles; i++) {
            V live{};
            bool others = false;
            for (int r = 0; r < RUNS; r++) {
                Run& run = runs[r];
                const bool goes_on = run.goes_on();
                others |= goes_on;
                live[r] = goes_on && !run.resetting;
                (*bench->reset)[r] = run.resetting > reset_delay;
                drive(r, live[r]);
            }
            if (!others) return false;
            bench->cycle(bench->model);
            V event{};
            record(live, event);
            for (int r = 0; r < RUNS; r++) {
                Run& run = runs[r];
                if (live[r]) {
                    run.count(event[r]);
                    if (run.last()) remember_state(r);
                    if (run.false_start && --run.false_start == 0) run.begin_reset(reset_cycles + reset_delay);
                } else if (run.resetting) {
                    run.resetting--;
                }
            }
        }
        return true;
    }
};

}  // namespace

#pragma GCC visibility push(default)  // everything else in the library stays hidden
extern "C" {

void* lockstep_open(const uint32_t* tables, int64_t reset_cycles, int64_t reset_delay) {
    try {
        auto* simulation = new Simulation(tables);
        simulation->reset_cycles = reset_cycles;
        simulation->reset_delay = reset_delay;
        return simulation;
    } catch (const std::exception&) {
        return nullptr;
    }
}
void lockstep_close(void* handle) { delete static_cast<Simulation*>(handle); }
int32_t lockstep_runs() { return RUNS; }

void lockstep_source(void* handle, uint32_t run, uint32_t k, int64_t tokens, const uint32_t* rows, const int64_t* offers) {
    static_cast<Simulation*>(handle)->runs[run].sources[k] = Source{tokens, rows, offers};
}

void lockstep_sink(void* handle, uint32_t run, uint32_t k, int64_t expected, int64_t length, int64_t mask,
                   const uint8_t* trace) {
    static_cast<Simulation*>(handle)->runs[run].sinks[k] = Sink{expected, length, mask, trace};
}

void lockstep_begin(void* handle, uint32_t run, int64_t limit, int64_t patience, int64_t tail, int64_t false_start) {
    auto& simulation = *static_cast<Simulation*>(handle);
    Run& begun = simulation.runs[run];
    begun.limit = limit;
    begun.patience = patience;
    begun.after = tail;
    begun.false_start = false_start;
    begun.status = GO_ON;
    begun.begin_reset(simulation.reset_cycles + simulation.reset_delay);
}

// Ends a run at another cycle than it began with.
void lockstep_limit(void* handle, uint32_t run, int64_t limit) {
    static_cast<Simulation*>(handle)->runs[run].limit = limit;
}

// Forgets what was recorded of a run so far.
void lockstep_forget(void* handle, uint32_t run) {
    Run& begun = static_cast<Simulation*>(handle)->runs[run];
    for (Log& log : begun.logs) {
        log.cycles.clear();
        log.payload.clear();
    }
    begun.fires.clear();
}

// Returns 1 to go on, 0 when all runs have ended, -1 without memory for the recording.
int32_t lockstep_advance(void* handle, int64_t cycles) {
    try {
        return static_cast<Simulation*>(handle)->advance(cycles);
    } catch (const std::exception&) {
        return -1;
    }
}

int32_t lockstep_status(void* handle, uint32_t run) { return static_cast<Simulation*>(handle)->runs[run].status; }
int64_t lockstep_cycle(void* handle, uint32_t run) { return static_cast<Simulation*>(handle)->runs[run].cycle; }
uint8_t lockstep_state(void* handle, uint32_t run, uint32_t port) {
    return static_cast<Simulation*>(handle)->runs[run].state[port];
}
uint32_t lockstep_port_words(void* handle, uint32_t port) {
    return static_cast<Simulation*>(handle)->bench->ports[port].words;
}
uint32_t lockstep_fire_words(void* handle) { return static_cast<Simulation*>(handle)->bench->fire_words; }
int64_t lockstep_transfers(void* handle, uint32_t run, uint32_t port) {
    return static_cast<int64_t>(static_cast<Simulation*>(handle)->runs[run].logs[port].cycles.size());
}
const int64_t* lockstep_cycles_of(void* handle, uint32_t run, uint32_t port) {
    return static_cast<Simulation*>(handle)->runs[run].logs[port].cycles.data();
}
const uint32_t* lockstep_payload(void* handle, uint32_t run, uint32_t port) {
    return static_cast<Simulation*>(handle)->runs[run].logs[port].payload.data();
}
const uint32_t* lockstep_fires(void* handle, uint32_t run) {
    return static_cast<Simulation*>(handle)->runs[run].fires.data();
}

}  // extern "C"
#pragma GCC visibility pop
