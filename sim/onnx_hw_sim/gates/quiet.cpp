// Cycles in which little changes; see ``Quiet``.
#include "interpreter.h"

namespace {

constexpr int LOOKS = 16;        // edges from one look to the next
constexpr size_t SHARE = 8;      // least number of units for each one that is computed in a quiet cycle
constexpr size_t PER_NET = 4;    // units that a changed register wakes, about

}  // namespace

void Machine::connect_readers() {
    const size_t settle = tables.size() + products.size() + small_reads.size();
    quiet.products = tables.size();
    quiet.reads = quiet.products + products.size();
    quiet.flip_flops = settle;
    quiet.blocks = settle + flip_flops.size();
    for (size_t first = 0, last; first < ports.size(); first = last) {
        for (last = first; last < ports.size() && ports[last].block == ports[first].block;) last++;
        quiet.block_first.push_back(int32_t(first));
        quiet.block_last.push_back(int32_t(last));
    }
    quiet.writes = quiet.blocks + quiet.block_first.size();
    const size_t units = quiet.writes + small_writes.size();
    quiet.queued.assign(units, 0);
    quiet.segment_of.assign(settle, 0);
    quiet.waiting.resize(segments.size());
    quiet.reads_of.resize(small_writes.size());
    quiet.limit = units / SHARE;

    std::vector<std::vector<int32_t>> of_net(nets.size());
    auto reads = [&](size_t unit, const int32_t* in, size_t count) {
        for (size_t k = 0; k < count; k++) {
            std::vector<int32_t>& readers = of_net[in[k]];
            if (in[k] > 2 && (readers.empty() || readers.back() != int32_t(unit))) readers.push_back(int32_t(unit));
        }
    };
    for (size_t s = 0; s < segments.size(); s++) {
        const Segment& segment = segments[s];
        const size_t base = segment.kind <= 4 ? 0 : segment.kind == 5 ? quiet.products : quiet.reads;
        for (int k = segment.first; k < segment.first + segment.count; k++) {
            quiet.segment_of[base + k] = int32_t(s);
            if (segment.kind <= 4) {
                reads(base + k, tables[k].in, segment.kind);
            } else if (segment.kind == 5) {
                reads(base + k, products[k].a, 38);  // both operands and their signs lie side by side
            } else {
                reads(base + k, small_reads[k].address, 4);
                quiet.reads_of[small_reads[k].memory].push_back(int32_t(base + k));
            }
        }
    }
    for (size_t k = 0; k < flip_flops.size(); k++) reads(quiet.flip_flops + k, &flip_flops[k].in, 3);
    for (size_t g = 0; g < quiet.block_first.size(); g++) {
        for (int32_t p = quiet.block_first[g]; p < quiet.block_last[g]; p++) {
            reads(quiet.blocks + g, ports[p].address, 14);
            reads(quiet.blocks + g, &ports[p].enable, 2);
            reads(quiet.blocks + g, ports[p].in, MEMORY_WORD);
            reads(quiet.blocks + g, ports[p].mask, MEMORY_WORD);
        }
    }
    for (size_t k = 0; k < small_writes.size(); k++) reads(quiet.writes + k, small_writes[k].address, 9);
    quiet.first.assign(1, 0);
    for (const std::vector<int32_t>& readers : of_net) {
        quiet.readers.insert(quiet.readers.end(), readers.begin(), readers.end());
        quiet.first.push_back(int32_t(quiet.readers.size()));
    }
}

void Machine::queue(size_t unit) {
    if (quiet.queued[unit]) return;
    quiet.queued[unit] = 1;
    if (unit < quiet.flip_flops) {
        quiet.waiting[quiet.segment_of[unit]].push_back(int32_t(unit));
    } else {
        quiet.at_edge.push_back(int32_t(unit));
    }
}

void Machine::wake(int32_t net) {
    for (int32_t k = quiet.first[net]; k < quiet.first[net + 1]; k++) queue(size_t(quiet.readers[k]));
}

void Machine::evaluate(size_t unit) {
    if (unit >= quiet.reads || unit >= quiet.products) {
        const bool product = unit < quiet.reads;
        const int32_t* out = product ? products[unit - quiet.products].out : small_reads[unit - quiet.reads].out;
        const int count = product ? 36 : 4;
        Word before[36];
        for (int k = 0; k < count; k++) before[k] = out[k] >= 0 ? nets[out[k]] : 0;
        if (product) {
            multiply(products[unit - quiet.products]);
        } else {
            read_small(small_reads[unit - quiet.reads]);
        }
        for (int k = 0; k < count; k++) {
            if (out[k] >= 0 && nets[out[k]] != before[k]) wake(out[k]);
        }
        return;
    }
    const Table& table = tables[unit];
    const Word* function = functions.data() + 16 * table.function;
    switch (segments[quiet.segment_of[unit]].kind) {
        case 1: return drive(table.out, entry<1>(function, nets.data(), table.in));
        case 2: return drive(table.out, entry<2>(function, nets.data(), table.in));
        case 3: return drive(table.out, entry<3>(function, nets.data(), table.in));
        default: return drive(table.out, entry<4>(function, nets.data(), table.in));
    }
}

void Machine::settle_quietly() {
    size_t computed = quiet.at_edge.size();
    for (std::vector<int32_t>& waiting : quiet.waiting) {
        for (int32_t unit : waiting) {  // what it wakes waits in later segments
            quiet.queued[unit] = 0;
            evaluate(size_t(unit));
        }
        computed += waiting.size();
        waiting.clear();
    }
    if (computed > quiet.limit) end_quiet();
}

void Machine::end_quiet() {
    for (int32_t unit : quiet.at_edge) quiet.queued[unit] = 0;
    quiet.at_edge.clear();
    quiet.on = false;
    quiet.until_look = LOOKS;
}

// At an edge at which everything was computed: see what changes.
void Machine::become_quiet() {
    quiet.changed.clear();
    for (size_t k = 0; k < next.size(); k++) {
        const int32_t out = flip_flop_out[k];
        if (nets[out] != next[k]) quiet.changed.push_back(out);
        nets[out] = next[k];
    }
    quiet.until_look = LOOKS;
    quiet.on = quiet.changed.size() * PER_NET < quiet.limit;
    for (size_t p = 0; p < ports.size(); p++) show_port(p);
    if (!quiet.on) return;
    for (int32_t net : quiet.changed) wake(net);
    for (const std::vector<int32_t>& units : quiet.reads_of) {
        for (int32_t unit : units) queue(size_t(unit));
    }
    for (size_t unit = quiet.blocks; unit < quiet.queued.size(); unit++) queue(unit);
}

Word Machine::next_value(const Controlled& c, size_t k) const {
    const Word enable = nets[c.enable], reset = c.gated ? nets[c.reset] & enable : nets[c.reset];
    return (choose(enable, nets[flip_flop_in[k]], nets[flip_flop_out[k]]) & ~reset) | (c.set ? reset : 0);
}

void Machine::clock_quietly() {
    std::vector<int32_t> units;
    units.swap(quiet.at_edge);
    for (int32_t unit : units) {
        quiet.queued[unit] = 0;
        const size_t k = size_t(unit);
        if (k < quiet.blocks) {
            const FlipFlop& f = flip_flops[k - quiet.flip_flops];
            const Controlled c{0, 0, f.enable, f.reset, f.set != 0, f.gated != 0};
            next[k - quiet.flip_flops] = next_value(c, k - quiet.flip_flops);
        } else if (k < quiet.writes) {
            access(size_t(quiet.block_first[k - quiet.blocks]), size_t(quiet.block_last[k - quiet.blocks]));
        } else {
            write_small(k - quiet.writes);
        }
    }
    for (int32_t unit : units) {
        const size_t k = size_t(unit);
        if (k < quiet.blocks) {
            drive(flip_flop_out[k - quiet.flip_flops], next[k - quiet.flip_flops]);
        } else if (k < quiet.writes) {
            for (int32_t p = quiet.block_first[k - quiet.blocks]; p < quiet.block_last[k - quiet.blocks]; p++) {
                show_port(size_t(p));
                if (nets[ports[p].enable] & nets[ports[p].write]) queue(k);  // it goes on writing, and others read
            }
        } else {
            for (int32_t read : quiet.reads_of[k - quiet.writes]) queue(size_t(read));
        }
    }
    units.clear();
    if (quiet.at_edge.empty()) quiet.at_edge.swap(units);
}
