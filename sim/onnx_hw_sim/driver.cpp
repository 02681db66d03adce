// The cycle loop of a compiled simulation: sources offer, sinks take, everything is recorded.
//
// One cycle: set the inputs, settle with the clock low, sample, rising edge. Cycle 0 is the first one with reset low,
// everywhere in the circuit.
#include "bench.h"

#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

enum Status { GO_ON = 0, FINISHED = 1, STUCK = 2, OUT_OF_CYCLES = 3, BROKEN = 4 };

struct Source {
    int64_t tokens = 0;
    const uint8_t* payload = nullptr;  // tokens + 1 rows; the last one is driven while valid is low
    const int64_t* offers = nullptr;
};

struct Sink {
    int64_t expected = 0;
    int64_t trace_length = 0;
    int64_t mask = -1;  // of a cycle, its place in the trace: one that begins again has a power of two of them
    const uint8_t* trace = nullptr;
};

struct Log {
    std::vector<int64_t> cycles;
    std::vector<uint8_t> payload;
};

struct Simulation {
    const Bench* bench;
    std::vector<Source> sources;
    std::vector<Sink> sinks;
    std::vector<int64_t> taken;  // tokens so far, per source and sink
    std::vector<Log> logs;       // per port
    std::vector<uint8_t> fires;  // fire_bytes per cycle
    std::vector<uint8_t> state;  // per port: valid + 2 * ready, in the last cycle
    int64_t cycle = 0;
    int64_t quiet = 0;  // consecutive cycles without an event, unless the environment holds something back
    int64_t tail = -1;  // cycles left after the last expected token; negative before it
    uint64_t wave_from = 0;
    uint64_t wave_until = 0;
    std::string error;

    explicit Simulation(const char* wave_file)
        : bench(bench_open(wave_file)),
          sources(bench->sources),
          sinks(bench->sinks),
          taken(bench->sources + bench->sinks),
          logs(bench->sources + bench->sinks + bench->probes),
          state(logs.size()) {}
    ~Simulation() { bench_close(bench); }

    void drive_source(uint32_t k, bool allowed) {
        const Source& source = sources[k];
        const Port& port = bench->ports[k];
        const int64_t next = taken[k];
        const bool valid = allowed && next < source.tokens && source.offers[next] <= cycle;
        *port.valid = valid;
        std::memcpy(port.payload, source.payload + (valid ? next : source.tokens) * port.bytes, port.bytes);
    }

    bool drive_sink(uint32_t k, bool allowed) {
        const Sink& sink = sinks[k];
        const bool ready = allowed && (cycle >= sink.trace_length || sink.trace[cycle & sink.mask]);
        *bench->ports[sources.size() + k].ready = ready;
        return ready;
    }

    void settle(uint8_t clk) {
        *bench->clk = clk;
        bench->eval(bench->model);
        if (bench->dump && static_cast<uint64_t>(cycle) >= wave_from && static_cast<uint64_t>(cycle) < wave_until) {
            bench->dump(bench->model, 10 * static_cast<uint64_t>(cycle) + 5 * clk);
        }
    }

    void reset(int64_t cycles, int64_t delay) {
        for (uint32_t k = 0; k < sources.size(); k++) drive_source(k, false);
        for (uint32_t k = 0; k < sinks.size(); k++) drive_sink(k, false);
        const uint64_t until = wave_until;
        wave_until = 0;
        for (int64_t i = 0; i < cycles + delay; i++) {
            *bench->rst = i < cycles;
            settle(0);
            settle(1);
        }
        *bench->rst = 0;
        wave_until = until;
        taken.assign(taken.size(), 0);
        state.assign(state.size(), 0);
        for (Log& log : logs) log = Log();
        fires.clear();
        cycle = quiet = 0;
        tail = -1;
    }

    void forget() {
        for (Log& log : logs) {
            log.cycles.clear();
            log.payload.clear();
        }
        fires.clear();
    }

    bool record_fires() {
        const uint8_t* now = static_cast<const uint8_t*>(bench->fires);
        fires.insert(fires.end(), now, now + bench->fire_bytes);
        uint8_t any = 0;
        for (uint32_t i = 0; i < bench->fire_bytes; i++) any |= now[i];
        return any;
    }

    bool record_transfers() {
        bool any = false;
        for (size_t k = 0; k < logs.size(); k++) {
            const Port& port = bench->ports[k];
            state[k] = *port.valid + 2 * *port.ready;
            if (state[k] != 3) continue;
            any = true;
            logs[k].cycles.push_back(cycle);
            const uint8_t* payload = static_cast<const uint8_t*>(port.payload);
            logs[k].payload.insert(logs[k].payload.end(), payload, payload + port.bytes);
            if (k < taken.size()) taken[k]++;
        }
        return any;
    }

    bool satisfied() const {
        for (size_t k = 0; k < sinks.size(); k++) {
            if (taken[sources.size() + k] < sinks[k].expected) return false;
        }
        return true;
    }

    Status advance(int64_t until, int64_t limit, int64_t patience, int64_t after) {
        if (tail < 0 && satisfied()) tail = after;
        while (cycle < until) {
            if (tail == 0) return FINISHED;
            if (cycle >= limit) return tail >= 0 ? FINISHED : OUT_OF_CYCLES;
            bool held_back = false;  // a source that waits on purpose, or a sink that does not take
            for (uint32_t k = 0; k < sources.size(); k++) {
                drive_source(k, true);
                held_back |= taken[k] < sources[k].tokens && !*bench->ports[k].valid;
            }
            for (uint32_t k = 0; k < sinks.size(); k++) held_back |= !drive_sink(k, true);
            settle(0);
            bool event = record_transfers();
            if (bench->fires) event |= record_fires();
            settle(1);
            cycle++;
            if (tail > 0) {
                tail--;
            } else if (satisfied()) {
                tail = after;
            } else if (event) {
                quiet = 0;
            } else if (!held_back && ++quiet >= patience) {
                return STUCK;
            }
        }
        return GO_ON;
    }
};

}  // namespace

#pragma GCC visibility push(default)  // everything else in the library stays hidden
extern "C" {

void* simulation_open(const char* wave_file) { return new Simulation(wave_file); }
void simulation_close(void* handle) { delete static_cast<Simulation*>(handle); }

void simulation_source(void* handle, uint32_t k, int64_t tokens, const uint8_t* payload, const int64_t* offers) {
    static_cast<Simulation*>(handle)->sources[k] = Source{tokens, payload, offers};
}

void simulation_sink(void* handle, uint32_t k, int64_t expected, int64_t trace_length, int64_t mask,
                     const uint8_t* trace) {
    static_cast<Simulation*>(handle)->sinks[k] = Sink{expected, trace_length, mask, trace};
}

void simulation_window(void* handle, uint64_t from, uint64_t until) {
    auto& simulation = *static_cast<Simulation*>(handle);
    simulation.wave_from = from;
    simulation.wave_until = until;
}

int32_t simulation_reset(void* handle, int64_t cycles, int64_t delay) {
    auto& simulation = *static_cast<Simulation*>(handle);
    try {
        simulation.reset(cycles, delay);
        return GO_ON;
    } catch (const std::exception& error) {
        simulation.error = error.what();
        return BROKEN;
    }
}

int32_t simulation_advance(void* handle, int64_t until, int64_t limit, int64_t patience, int64_t tail) {
    auto& simulation = *static_cast<Simulation*>(handle);
    try {
        return simulation.advance(until, limit, patience, tail);
    } catch (const std::exception& error) {
        simulation.error = error.what();
        return BROKEN;
    }
}

// Forgets what was recorded so far; the run goes on.
void simulation_forget(void* handle) { static_cast<Simulation*>(handle)->forget(); }

const char* simulation_error(void* handle) { return static_cast<Simulation*>(handle)->error.c_str(); }
int64_t simulation_cycle(void* handle) { return static_cast<Simulation*>(handle)->cycle; }
uint8_t simulation_state(void* handle, uint32_t port) { return static_cast<Simulation*>(handle)->state[port]; }
uint32_t simulation_port_bytes(void* handle, uint32_t port) {
    return static_cast<Simulation*>(handle)->bench->ports[port].bytes;
}
uint32_t simulation_fire_bytes(void* handle) { return static_cast<Simulation*>(handle)->bench->fire_bytes; }

int64_t simulation_transfers(void* handle, uint32_t port) {
    return static_cast<int64_t>(static_cast<Simulation*>(handle)->logs[port].cycles.size());
}
const int64_t* simulation_cycles_of(void* handle, uint32_t port) {
    return static_cast<Simulation*>(handle)->logs[port].cycles.data();
}
const uint8_t* simulation_payload(void* handle, uint32_t port) {
    return static_cast<Simulation*>(handle)->logs[port].payload.data();
}
const uint8_t* simulation_fires(void* handle) { return static_cast<Simulation*>(handle)->fires.data(); }

}  // extern "C"
#pragma GCC visibility pop

// Verilator's runtime ends the process on an error (for example a combinational loop). Here it ends only the run.
void vl_fatal(const char*, int, const char*, const char* message) { throw std::runtime_error(message); }
void vl_stop(const char*, int, const char*) { throw std::runtime_error("the circuit said $stop"); }
void vl_finish(const char*, int, const char*) { throw std::runtime_error("the circuit said $finish"); }
