// The cycle loop around the cells: in each of 64 runs sources offer and sinks take, with a timing and frames of its own.
//
// A run begins at power-up. It may stream for a while and then be reset; what is recorded begins with its cycle 0, the
// first one with reset low everywhere in the circuit.
#include "simulation.h"

namespace {

struct Pins {  // of a stream: nets
    std::vector<int32_t> payload;
    int32_t valid, ready;
};

struct Run {
    int64_t false_start, reset_from, reset_until, start;  // cycles since power-up; no reset: reset_from < 0
    int32_t pattern;                                      // of stalls
};

struct Source {
    Pins pins;
    int64_t tokens, rows, bytes;
    const uint8_t* payload;               // rows of bytes: (payloads, tokens), then one that is driven while not valid
    std::vector<int32_t> payload_of;      // per run
    std::vector<const int64_t*> offers;   // per pattern
    int64_t taken[RUNS] = {};
    int64_t shown[RUNS];
    Word valid = 0;
};

struct Sink {
    Pins pins;
    std::vector<const uint8_t*> ready;  // per pattern
    std::vector<int64_t> length, mask;
    Word taking = 0;
    std::vector<int64_t> cycles[RUNS];
    std::vector<uint8_t> payload[RUNS];
};

struct Bench : Simulation {
    int32_t reset = -1;
    std::vector<Run> runs;
    std::vector<Source> sources;
    std::vector<Sink> sinks;

    // The run's own cycle, of the false start or of the true one; negative while it streams nothing.
    int64_t own_cycle(const Run& run) const {
        if (cycle >= run.start) return cycle - run.start;
        return run.reset_from >= 0 && cycle < run.reset_from ? cycle - run.false_start : -1;
    }

    void drive(Source& source) {
        for (int k = 0; k < RUNS; k++) {
            const Run& run = runs[k];
            const int64_t now = own_cycle(run);
            if (cycle == run.start) source.taken[k] = 0;
            const int64_t next = source.taken[k];
            const bool valid = now >= 0 && next < source.tokens && source.offers[run.pattern][next] <= now;
            const int64_t row = valid ? int64_t(source.payload_of[k]) * source.tokens + next : -1;
            if (row == source.shown[k]) continue;
            source.shown[k] = row;
            set(source.valid, k, valid);
            const uint8_t* bytes = source.payload + (valid ? row : source.rows) * source.bytes;
            for (size_t bit = 0; bit < source.pins.payload.size(); bit++) {
                set(machine.nets[source.pins.payload[bit]], k, bytes[bit / 8] >> bit % 8 & 1);
            }
        }
        machine.nets[source.pins.valid] = source.valid;
    }

    void drive(Sink& sink) {
        for (int k = 0; k < RUNS; k++) {
            const int64_t now = own_cycle(runs[k]);
            const int32_t pattern = runs[k].pattern;
            set(sink.taking, k, now >= 0 && (now >= sink.length[pattern] || sink.ready[pattern][now & sink.mask[pattern]]));
        }
        machine.nets[sink.pins.ready] = sink.taking;
    }

    void drive_reset() {
        for (int k = 0; k < RUNS; k++) {
            set(machine.nets[reset], k, cycle >= runs[k].reset_from && cycle < runs[k].reset_until);
        }
    }

    void record() {
        for (Source& source : sources) {
            const Word moves = source.valid & machine.nets[source.pins.ready];
            for (int k = 0; k < RUNS; k++) source.taken[k] += moves >> k & 1;
        }
        for (Sink& sink : sinks) {
            const Word moves = sink.taking & machine.nets[sink.pins.valid];
            for (int k = 0; k < RUNS; k++) {
                if (!(moves >> k & 1) || cycle < runs[k].start) continue;
                sink.cycles[k].push_back(cycle - runs[k].start);
                uint8_t byte = 0;
                const size_t width = sink.pins.payload.size();
                for (size_t bit = 0; bit < width; bit++) {
                    byte |= (machine.nets[sink.pins.payload[bit]] >> k & 1) << bit % 8;
                    if (bit % 8 == 7 || bit + 1 == width) {
                        sink.payload[k].push_back(byte);
                        byte = 0;
                    }
                }
            }
        }
    }

    Word watched() const override {
        Word in_window = 0;
        for (int k = 0; k < RUNS; k++) {
            const int64_t now = cycle - runs[k].start;
            set(in_window, k, runs[k].pattern == watch.pattern && now > 0 && now < watch.window);
        }
        return in_window;
    }

    void step() override {
        drive_reset();
        for (Source& source : sources) drive(source);
        for (Sink& sink : sinks) drive(sink);
        machine.settle();
        record();
        count_toggles();
        machine.clock();
        cycle++;
    }
};

Pins pins(const int32_t* payload, int64_t width, int32_t valid, int32_t ready) {
    return Pins{std::vector<int32_t>(payload, payload + width), valid, ready};
}

Bench& bench(void* handle) { return static_cast<Bench&>(simulation(handle)); }

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void* gates_open(int64_t nets, int32_t reset, uint64_t seed) {
    Bench* made = new Bench;
    made->machine.open(nets, seed);
    made->reset = reset;
    return static_cast<Simulation*>(made);
}

void gates_run(void* handle, int64_t false_start, int64_t from, int64_t until, int64_t start, int32_t pattern) {
    bench(handle).runs.push_back(Run{false_start, from, until, start, pattern});
}

void gates_source(void* handle, const int32_t* payload, int64_t width, int32_t valid, int32_t ready, int64_t tokens,
                  int64_t rows, int64_t bytes, const uint8_t* data, const int32_t* payload_of) {
    Source source{pins(payload, width, valid, ready), tokens, rows, bytes, data,
                  std::vector<int32_t>(payload_of, payload_of + RUNS), {}};
    for (int64_t& shown : source.shown) shown = -2;
    bench(handle).sources.push_back(source);
}

void gates_offers(void* handle, int32_t source, const int64_t* offers) {
    bench(handle).sources[source].offers.push_back(offers);
}

void gates_sink(void* handle, const int32_t* payload, int64_t width, int32_t valid, int32_t ready) {
    Sink sink;
    sink.pins = pins(payload, width, valid, ready);
    bench(handle).sinks.push_back(sink);
}

void gates_ready(void* handle, int32_t sink, const uint8_t* trace, int64_t length, int64_t mask) {
    bench(handle).sinks[sink].ready.push_back(trace);
    bench(handle).sinks[sink].length.push_back(length);
    bench(handle).sinks[sink].mask.push_back(mask);
}

int64_t gates_transfers(void* handle, int32_t sink, int32_t run) {
    return static_cast<int64_t>(bench(handle).sinks[sink].cycles[run].size());
}
const int64_t* gates_cycles_of(void* handle, int32_t sink, int32_t run) {
    return bench(handle).sinks[sink].cycles[run].data();
}
const uint8_t* gates_payload(void* handle, int32_t sink, int32_t run) {
    return bench(handle).sinks[sink].payload[run].data();
}

}  // extern "C"
#pragma GCC visibility pop
