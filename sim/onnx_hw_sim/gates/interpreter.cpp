#include "interpreter.h"

#include <cstring>

void Machine::open(int64_t count, uint64_t seed) {
    random_state ^= seed * 2 + 1;
    nets.assign(count, 0);
    nets[1] = ~Word(0);
    nets[2] = random();
}

Word Machine::random() {  // xorshift64*
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * 0x2545f4914f6cdd1d;
}

namespace {

template <int STEP>
inline void swap_blocks(Word* words, Word mask) {
    for (int first = 0; first < RUNS; first += 2 * STEP) {
        for (int k = first; k < first + STEP; k++) {
            const Word swapped = (words[k] >> STEP ^ words[k + STEP]) & mask;
            words[k] ^= swapped << STEP;
            words[k + STEP] ^= swapped;
        }
    }
}

}  // namespace

void transpose(Word* words) {
    swap_blocks<32>(words, 0x00000000ffffffff);
    swap_blocks<16>(words, 0x0000ffff0000ffff);
    swap_blocks<8>(words, 0x00ff00ff00ff00ff);
    swap_blocks<4>(words, 0x0f0f0f0f0f0f0f0f);
    swap_blocks<2>(words, 0x3333333333333333);
    swap_blocks<1>(words, 0x5555555555555555);
}

namespace {

// Tables of one function, side by side.
template <int INPUTS>
void look_up_equal(const Table* table, const Table* last, const Word* function, Word* nets) {
    Word own[1 << INPUTS];
    std::memcpy(own, function, sizeof own);
    for (; table != last; table++) nets[table->out] = entry<INPUTS>(own, nets, table->in);
}

template <class Formula>
void compute(const Table* table, const Table* last, Word* nets, Formula formula) {
    for (; table != last; table++) {
        const int32_t* in = table->in;
        nets[table->out] = formula(nets[in[0]], nets[in[1]], nets[in[2]]);
    }
}

}  // namespace

void Machine::look_up(const Segment& segment) {
    const Table* const last = tables.data() + segment.first + segment.count;
    for (const Table *table = tables.data() + segment.first, *end; table != last; table = end) {
        for (end = table; end != last && end->function == table->function;) end++;
        const Word* function = functions.data() + 16 * table->function;
        Word* const n = nets.data();
        switch (segment.kind << 16 | codes[table->function]) {  // the most frequent ones by their formulas
            case 0x20002: compute(table, end, n, [](Word a, Word b, Word) { return a & ~b; }); continue;
            case 0x20004: compute(table, end, n, [](Word a, Word b, Word) { return ~a & b; }); continue;
            case 0x20006: compute(table, end, n, [](Word a, Word b, Word) { return a ^ b; }); continue;
            case 0x20008: compute(table, end, n, [](Word a, Word b, Word) { return a & b; }); continue;
            case 0x30096: compute(table, end, n, [](Word a, Word b, Word c) { return a ^ b ^ c; }); continue;
            case 0x300ac: compute(table, end, n, [](Word a, Word b, Word c) { return choose(c, a, b); }); continue;
            case 0x300ca: compute(table, end, n, [](Word a, Word b, Word c) { return choose(c, b, a); }); continue;
            default: break;
        }
        switch (segment.kind) {
            case 1: look_up_equal<1>(table, end, function, n); break;
            case 2: look_up_equal<2>(table, end, function, n); break;
            case 3: look_up_equal<3>(table, end, function, n); break;
            default: look_up_equal<4>(table, end, function, n);
        }
    }
}

void Machine::multiply(const Product& product) {
    Word rows[RUNS] = {};
    for (int k = 0; k < 18; k++) {
        rows[k] = nets[product.a[k]];
        rows[32 + k] = nets[product.b[k]];
    }
    rows[18] = nets[product.a_signed] & rows[17];
    rows[50] = nets[product.b_signed] & rows[49];
    transpose(rows);
    for (int run = 0; run < RUNS; run++) {
        const int64_t a = static_cast<int64_t>(rows[run] << 45) >> 45;
        const int64_t b = static_cast<int64_t>(rows[run] << 13) >> 45;
        rows[run] = static_cast<Word>(a * b);
    }
    transpose(rows);
    for (int k = 0; k < 36; k++) {
        if (product.out[k] >= 0) nets[product.out[k]] = rows[k];
    }
}

void Machine::read_small(const SmallRead& read) {
    const Word* memory = small.data() + static_cast<size_t>(read.memory) * SMALL * 4;
    for (int bit = 0; bit < 4; bit++, memory += SMALL) {
        if (read.out[bit] < 0) continue;
        Word level[8];
        const Word top = nets[read.address[3]];
        for (int k = 0; k < 8; k++) level[k] = choose(top, memory[k + 8], memory[k]);
        for (int j = 2; j >= 0; j--) {
            const Word select = nets[read.address[j]];
            for (int k = 0; k < 1 << j; k++) level[k] = choose(select, level[k + (1 << j)], level[k]);
        }
        nets[read.out[bit]] = level[0];
    }
}

void Machine::write_small(size_t number) {
    const SmallWrite& write = small_writes[number];
    Word here[SMALL] = {nets[write.enable]};  // the runs that write this word
    if (!here[0]) return;
    for (int j = 0; j < 4; j++) {
        const Word select = nets[write.address[j]];
        for (int k = 0; k < 1 << j; k++) {
            here[k + (1 << j)] = here[k] & select;
            here[k] &= ~select;
        }
    }
    Word* memory = small.data() + number * SMALL * 4;
    for (int bit = 0; bit < 4; bit++, memory += SMALL) {
        const Word in = nets[write.in[bit]];
        for (int word = 0; word < SMALL; word++) memory[word] = choose(here[word], in, memory[word]);
    }
}

// All ports of one block at a clock edge: every port sees the words as they were before it. What is read where another
// port writes is rubbish; no circuit may depend on it.
void Machine::access(size_t first, size_t last) {
    struct Touch { uint32_t word; uint64_t bits, data; };
    static thread_local Touch touched[4][RUNS];
    Word writing[4], reading[4];
    std::vector<uint64_t>& words = contents[ports[first].block];
    const Block& block = blocks[ports[first].block];
    for (size_t p = first; p < last; p++) {
        const Port& port = ports[p];
        Touch* touch = touched[p - first];
        const Word enable = nets[port.enable];
        writing[p - first] = enable & nets[port.write];
        reading[p - first] = !port.reads ? 0 : port.reads == 2 ? enable & ~nets[port.write] : enable;
        if (!(writing[p - first] | reading[p - first])) continue;
        Word rows[RUNS] = {}, data[RUNS] = {}, mask[RUNS] = {};
        for (int k = 0; k < 14; k++) rows[k] = nets[port.address[k]];
        transpose(rows);
        bool masked = false;
        if (writing[p - first]) {
            for (int j = 0; j < port.width; j++) {
                data[j] = nets[port.in[j]];
                mask[j] = nets[port.mask[j]];
                masked |= ~mask[j] != 0;
            }
            transpose(data);
            if (masked) transpose(mask);
        }
        const uint64_t all = (uint64_t(1) << port.width) - 1;
        for (int run = 0; run < RUNS; run++) {
            const uint32_t word = rows[run] >> port.word_shift & port.word_mask;
            const int base = port.begins[rows[run] >> port.part_shift & port.part_mask];
            const uint64_t held = word < uint32_t(block.words)
                ? words[block.shared ? word : size_t(run) * block.words + word] : 0;
            const uint64_t allowed = masked ? mask[run] & all : all;
            uint64_t seen = 0, bits = 0, placed = 0;
            if (port.bit_step == 1) {
                seen = held >> base & all;
                bits = allowed << base;
                placed = (data[run] & all) << base;
            } else {
                for (int j = 0; j < port.width; j++) {
                    const int at = base + j * port.bit_step;
                    seen |= (held >> at & 1) << j;
                    bits |= (allowed >> j & 1) << at;
                    placed |= (data[run] >> j & 1) << at;
                }
            }
            touch[run] = Touch{word, bits, placed};
            read[p * RUNS + run] = port.reads == 3 && writing[p - first] >> run & 1
                ? (seen & ~allowed) | (data[run] & allowed) : seen;
        }
    }
    for (size_t p = first; p < last; p++) {
        if (!writing[p - first]) continue;
        for (int run = 0; run < RUNS; run++) {
            if (!(writing[p - first] >> run & 1)) continue;
            const Touch& touch = touched[p - first][run];
            if (touch.word >= uint32_t(block.words)) continue;
            uint64_t& word = words[size_t(run) * block.words + touch.word];
            word = (word & ~touch.bits) | (touch.data & touch.bits);
            for (size_t other = first; other < last; other++) {
                if (other == p || !(reading[other - first] >> run & 1)) continue;
                const Touch& theirs = touched[other - first][run];
                if (theirs.word == touch.word && (theirs.bits & touch.bits)) read[other * RUNS + run] = random();
            }
        }
    }
    for (size_t p = first; p < last; p++) taken[p] = reading[p - first];
}

void Machine::settle() {
    if (quiet.on) return settle_quietly();
    for (const Segment& segment : segments) {
        if (segment.kind <= 4) {
            look_up(segment);
        } else if (segment.kind == 5) {
            for (int k = 0; k < segment.count; k++) multiply(products[segment.first + k]);
        } else {
            for (int k = 0; k < segment.count; k++) read_small(small_reads[segment.first + k]);
        }
    }
}

void Machine::gather() {
    for (size_t k = 0; k < flip_flops.size(); k++) {
        const FlipFlop &f = flip_flops[k], &before = flip_flops[k ? k - 1 : 0];
        const bool alike = k && f.enable == before.enable && f.reset == before.reset && f.set == before.set &&
                           f.gated == before.gated;
        if (!alike) controlled.push_back(Controlled{k, k, f.enable, f.reset, f.set != 0, f.gated != 0});
        controlled.back().last = k + 1;
        flip_flop_in.push_back(f.in);
        flip_flop_out.push_back(f.out);
    }
    next.resize(flip_flops.size());
    if (quiet.allowed) connect_readers();
}

void Machine::show_port(size_t p) {
    if (!taken[p]) return;
    Word rows[RUNS];
    std::memcpy(rows, &read[p * RUNS], sizeof rows);
    transpose(rows);
    for (int j = 0; j < ports[p].width; j++) {
        const int32_t out = ports[p].out[j];
        if (out >= 0) drive(out, choose(taken[p], rows[j], nets[out]));
    }
}

void Machine::clock() {
    if (quiet.on) return clock_quietly();
    Word* const n = nets.data();
    const int32_t *in = flip_flop_in.data(), *out = flip_flop_out.data();
    for (const Controlled& c : controlled) {
        const Word enable = n[c.enable], reset = c.gated ? n[c.reset] & enable : n[c.reset], set = c.set ? reset : 0;
        if (!~enable && !reset) {
            for (size_t k = c.first; k < c.last; k++) next[k] = n[in[k]];
        } else {
            for (size_t k = c.first; k < c.last; k++) next[k] = (choose(enable, n[in[k]], n[out[k]]) & ~reset) | set;
        }
    }
    for (size_t first = 0, last; first < ports.size(); first = last) {
        for (last = first; last < ports.size() && ports[last].block == ports[first].block;) last++;
        access(first, last);
    }
    for (size_t k = 0; k < small_writes.size(); k++) write_small(k);
    if (quiet.allowed && --quiet.until_look <= 0) return become_quiet();
    for (size_t k = 0; k < next.size(); k++) n[out[k]] = next[k];
    for (size_t p = 0; p < ports.size(); p++) show_port(p);
}
