#include "machine.h"

#include <cstring>

Word Machine::random() {  // xorshift64*
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * 0x2545f4914f6cdd1d;
}

void transpose(Word* words) {
    Word mask = 0x00000000ffffffff;
    for (int step = 32; step; step >>= 1, mask ^= mask << step) {
        for (int k = 0; k < RUNS; k = (k + step + 1) & ~step) {
            const Word swapped = (words[k] >> step ^ words[k + step]) & mask;
            words[k] ^= swapped << step;
            words[k + step] ^= swapped;
        }
    }
}

namespace {

inline Word choose(Word select, Word high, Word low) { return low ^ (select & (low ^ high)); }

template <int INPUTS>
inline Word entry(const Word* function, const Word* nets, const int32_t* in) {
    Word level[8];
    const Word first = nets[in[0]];
    for (int k = 0; k < 1 << (INPUTS - 1); k++) level[k] = function[2 * k] ^ (first & function[2 * k + 1]);
    for (int j = 1; j < INPUTS; j++) {
        const Word select = nets[in[j]];
        for (int k = 0; k < 1 << (INPUTS - 1 - j); k++) level[k] = choose(select, level[2 * k + 1], level[2 * k]);
    }
    return level[0];
}

template <int INPUTS>
void look_up_all(const Table* table, const Table* last, const Word* functions, Word* nets) {
    for (; table != last; table++) nets[table->out] = entry<INPUTS>(functions + 16 * table->function, nets, table->in);
}

}  // namespace

void Machine::look_up(const Segment& segment) {
    const Table* first = tables.data() + segment.first;
    const Table* last = first + segment.count;
    switch (segment.kind) {
        case 1: return look_up_all<1>(first, last, functions.data(), nets.data());
        case 2: return look_up_all<2>(first, last, functions.data(), nets.data());
        case 3: return look_up_all<3>(first, last, functions.data(), nets.data());
        default: return look_up_all<4>(first, last, functions.data(), nets.data());
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
    Word select[4];
    for (int k = 0; k < 4; k++) select[k] = nets[read.address[k]];
    for (int bit = 0; bit < 4; bit++) {
        if (read.out[bit] < 0) continue;
        Word level[8];
        for (int k = 0; k < 8; k++) level[k] = choose(select[0], memory[4 * (2 * k + 1) + bit], memory[8 * k + bit]);
        for (int j = 1; j < 4; j++) {
            for (int k = 0; k < 8 >> j; k++) level[k] = choose(select[j], level[2 * k + 1], level[2 * k]);
        }
        nets[read.out[bit]] = level[0];
    }
}

void Machine::write_small(size_t number) {
    const SmallWrite& write = small_writes[number];
    const Word enable = nets[write.enable];
    if (!enable) return;
    Word* memory = small.data() + number * SMALL * 4;
    Word in[4];
    for (int bit = 0; bit < 4; bit++) in[bit] = nets[write.in[bit]];
    for (int word = 0; word < SMALL; word++) {
        Word here = enable;
        for (int k = 0; k < 4; k++) here &= word >> k & 1 ? nets[write.address[k]] : ~nets[write.address[k]];
        for (int bit = 0; bit < 4; bit++) memory[4 * word + bit] = choose(here, in[bit], memory[4 * word + bit]);
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

void Machine::clock() {
    for (size_t k = 0; k < flip_flops.size(); k++) {
        const FlipFlop& f = flip_flops[k];
        const Word enable = nets[f.enable], reset = f.gated ? nets[f.reset] & enable : nets[f.reset];
        const Word held = choose(enable, nets[f.in], nets[f.out]);
        next[k] = f.set ? held | reset : held & ~reset;
    }
    for (size_t first = 0, last; first < ports.size(); first = last) {
        for (last = first; last < ports.size() && ports[last].block == ports[first].block;) last++;
        access(first, last);
    }
    for (size_t k = 0; k < small_writes.size(); k++) write_small(k);
    for (size_t k = 0; k < flip_flops.size(); k++) nets[flip_flops[k].out] = next[k];
    for (size_t p = 0; p < ports.size(); p++) {
        if (!taken[p]) continue;
        Word rows[RUNS];
        std::memcpy(rows, &read[p * RUNS], sizeof rows);
        transpose(rows);
        for (int j = 0; j < ports[p].width; j++) {
            const int32_t out = ports[p].out[j];
            if (out >= 0) nets[out] = choose(taken[p], rows[j], nets[out]);
        }
    }
}
