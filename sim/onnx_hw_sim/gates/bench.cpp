// The cycle loop around the cells: in each of 64 runs sources offer and sinks take, with a timing and frames of its own.
//
// A run begins at power-up. It may stream for a while and then be reset; what is recorded begins with its cycle 0, the
// first one with reset low everywhere in the circuit.
#include "interpreter.h"

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
    std::vector<int64_t> length;
    Word taking = 0;
    std::vector<int64_t> cycles[RUNS];
    std::vector<uint8_t> payload[RUNS];
};

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

struct Bench {
    Machine machine;
    Watch watch;
    int32_t reset = -1;
    std::vector<Run> runs;
    std::vector<Source> sources;
    std::vector<Sink> sinks;
    int64_t cycle = 0;

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
            set(sink.taking, k, now >= 0 && (now >= sink.length[pattern] || sink.ready[pattern][now]));
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

    void count_toggles() {
        if (watch.nets.empty()) return;
        if (cycle == watch.next) {
            compare();
            watch.schedule(cycle);
        }
        if (cycle != watch.next - 1) return;
        for (size_t k = 0; k < watch.nets.size(); k++) watch.before[k] = machine.nets[watch.nets[k]];
    }

    void compare() {
        Word in_window = 0;
        for (int k = 0; k < RUNS; k++) {
            const int64_t now = cycle - runs[k].start;
            set(in_window, k, runs[k].pattern == watch.pattern && now > 0 && now < watch.window);
        }
        if (!in_window) return;
        watch.pairs += __builtin_popcountll(in_window);
        size_t k = 0;
        for (size_t group = 0; group < watch.ends.size(); group++) {
            uint64_t count = 0;
            for (; k < size_t(watch.ends[group]); k++) {
                count += __builtin_popcountll((machine.nets[watch.nets[k]] ^ watch.before[k]) & in_window);
            }
            watch.toggles[group] += count;
        }
    }

    void step() {
        drive_reset();
        for (Source& source : sources) drive(source);
        for (Sink& sink : sinks) drive(sink);
        machine.settle();
        record();
        count_toggles();
        machine.clock();
        cycle++;
    }

    static void set(Word& word, int bit, bool value) {
        word = (word & ~(Word(1) << bit)) | Word(value) << bit;
    }
};

template <class Row>
void take(std::vector<Row>& rows, const int32_t* data, int64_t count) {
    const Row* first = reinterpret_cast<const Row*>(data);
    rows.assign(first, first + count);
}

Pins pins(const int32_t* payload, int64_t width, int32_t valid, int32_t ready) {
    return Pins{std::vector<int32_t>(payload, payload + width), valid, ready};
}

Bench& bench(void* handle) { return *static_cast<Bench*>(handle); }

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void* gates_open(int64_t nets, int32_t reset, uint64_t seed) {
    Bench* made = new Bench;
    made->machine.random_state ^= seed * 2 + 1;
    made->machine.nets.assign(nets, 0);
    made->machine.nets[1] = ~Word(0);
    made->machine.nets[2] = made->machine.random();
    made->reset = reset;
    return made;
}

void gates_close(void* handle) { delete static_cast<Bench*>(handle); }

// Rows of one kind, in the order of the structures of interpreter.h.
void gates_rows(void* handle, int32_t kind, const int32_t* data, int64_t count) {
    Machine& machine = bench(handle).machine;
    switch (kind) {
        case 0: return take(machine.segments, data, count);
        case 1: return take(machine.tables, data, count);
        case 2: return take(machine.flip_flops, data, count);
        case 3: return take(machine.products, data, count);
        case 4: return take(machine.small_reads, data, count);
        case 5: return take(machine.small_writes, data, count);
        case 6: return take(machine.ports, data, count);
        default: return take(machine.blocks, data, count);
    }
}

void gates_functions(void* handle, const uint16_t* entries, int64_t count) {
    Machine& machine = bench(handle).machine;
    for (int64_t f = 0; f < count; f++) {
        machine.codes.push_back(entries[f]);
        for (int k = 0; k < 16; k += 2) {
            const Word low = entries[f] >> k & 1 ? ~Word(0) : 0, high = entries[f] >> (k + 1) & 1 ? ~Word(0) : 0;
            machine.functions.push_back(low);
            machine.functions.push_back(low ^ high);
        }
    }
}

// The contents of the next block.
void gates_contents(void* handle, const uint64_t* words) {
    Machine& machine = bench(handle).machine;
    const Block& block = machine.blocks[machine.contents.size()];
    std::vector<uint64_t> content(size_t(block.words) * (block.shared ? 1 : RUNS));
    for (size_t k = 0; k < content.size(); k++) content[k] = block.rubbish ? machine.random() : words[k % block.words];
    machine.contents.push_back(content);
}

// After the last row: registers and memories as they are at power-up.
void gates_power_up(void* handle) {
    Machine& machine = bench(handle).machine;
    machine.gather();
    machine.read.resize(machine.ports.size() * RUNS);
    machine.taken.resize(machine.ports.size());
    for (const FlipFlop& f : machine.flip_flops) {
        machine.nets[f.out] = f.begins == 2 ? machine.random() : f.begins ? ~Word(0) : 0;
    }
    for (const Port& port : machine.ports) {
        for (int32_t out : port.out) {
            if (out >= 0) machine.nets[out] = machine.random();
        }
    }
    machine.small.resize(machine.small_writes.size() * SMALL * 4);
    for (Word& word : machine.small) word = machine.random();
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

void gates_ready(void* handle, int32_t sink, const uint8_t* trace, int64_t length) {
    bench(handle).sinks[sink].ready.push_back(trace);
    bench(handle).sinks[sink].length.push_back(length);
}

// Nets, group by group, whose toggles are counted; ``ends`` is where each group ends.
void gates_watch(void* handle, const int32_t* nets, const int64_t* ends, int64_t groups, int32_t pattern,
                 int64_t window, int64_t gap) {
    Watch& watch = bench(handle).watch;
    watch.ends.assign(ends, ends + groups);
    watch.nets.assign(nets, nets + (groups ? ends[groups - 1] : 0));
    watch.before.resize(watch.nets.size());
    watch.toggles.assign(groups, 0);
    watch.pattern = pattern;
    watch.window = window;
    watch.gap = gap;
}

int64_t gates_watched(void* handle, uint64_t* toggles) {
    const Watch& watch = bench(handle).watch;
    for (size_t group = 0; group < watch.toggles.size(); group++) toggles[group] = watch.toggles[group];
    return watch.pairs;
}

void gates_step(void* handle, int64_t cycles) {
    for (int64_t k = 0; k < cycles; k++) bench(handle).step();
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
