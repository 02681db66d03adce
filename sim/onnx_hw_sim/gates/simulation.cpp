// What every simulation of a netlist has: its rows, its memories at power-up, its toggles.
#include "simulation.h"

void Simulation::count_toggles() {
    if (watch.nets.empty()) return;
    if (cycle == watch.next) {
        compare();
        watch.schedule(cycle);
    }
    if (cycle != watch.next - 1) return;
    for (size_t k = 0; k < watch.nets.size(); k++) watch.before[k] = machine.nets[watch.nets[k]];
}

void Simulation::compare() {
    const Word in_window = watched();
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

namespace {

template <class Row>
void take(std::vector<Row>& rows, const int32_t* data, int64_t count) {
    const Row* first = reinterpret_cast<const Row*>(data);
    rows.assign(first, first + count);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void gates_close(void* handle) { delete &simulation(handle); }

// Rows of one kind, in the order of the structures of interpreter.h.
void gates_rows(void* handle, int32_t kind, const int32_t* data, int64_t count) {
    Machine& machine = simulation(handle).machine;
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
    Machine& machine = simulation(handle).machine;
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
    Machine& machine = simulation(handle).machine;
    const Block& block = machine.blocks[machine.contents.size()];
    std::vector<uint64_t> content(size_t(block.words) * (block.shared ? 1 : RUNS));
    for (size_t k = 0; k < content.size(); k++) content[k] = block.rubbish ? machine.random() : words[k % block.words];
    machine.contents.push_back(content);
}

// After the last row: registers and memories as they are at power-up.
void gates_power_up(void* handle) {
    Machine& machine = simulation(handle).machine;
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

// Nets, group by group, whose toggles are counted; ``ends`` is where each group ends.
void gates_watch(void* handle, const int32_t* nets, const int64_t* ends, int64_t groups, int32_t pattern,
                 int64_t window, int64_t gap) {
    Watch& watch = simulation(handle).watch;
    watch.ends.assign(ends, ends + groups);
    watch.nets.assign(nets, nets + (groups ? ends[groups - 1] : 0));
    watch.before.resize(watch.nets.size());
    watch.toggles.assign(groups, 0);
    watch.pattern = pattern;
    watch.window = window;
    watch.gap = gap;
}

int64_t gates_watched(void* handle, uint64_t* toggles) {
    const Watch& watch = simulation(handle).watch;
    for (size_t group = 0; group < watch.toggles.size(); group++) toggles[group] = watch.toggles[group];
    return watch.pairs;
}

void gates_step(void* handle, int64_t cycles) {
    for (int64_t k = 0; k < cycles; k++) simulation(handle).step();
}

}  // extern "C"
#pragma GCC visibility pop
