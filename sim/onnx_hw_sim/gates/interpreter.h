// The parts that every cell of every chip is made of, 64 runs at once: bit k of a word belongs to run k.
//
// A net is a word. Net 0 is 0 and net 1 is 1 in all runs; net 2 is rubbish, another in every run: what a netlist leaves
// open. All parts of one kind lie side by side as rows of int32, in the order in which they settle.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

using std::size_t;

typedef uint64_t Word;
constexpr int RUNS = 64;
constexpr int MEMORY_WORD = 36;   // bits of the widest word of a block
constexpr int PARTS = 32;         // of it, that a narrow port reads one of
constexpr int SMALL = 16;         // words of a memory in look-up tables, of four bits

// Rows as Python writes them.
struct Table { int32_t out, in[4], function; };
struct FlipFlop { int32_t out, in, enable, reset, set, gated, begins; };  // begins: 0, 1, or 2 for rubbish
struct Product { int32_t a[18], b[18], a_signed, b_signed, out[36]; };
struct SmallRead { int32_t memory, address[4], out[4]; };
struct SmallWrite { int32_t address[4], in[4], enable; };
struct Segment { int32_t kind, first, count; };  // kind: 1..4 inputs of tables, 5 products, 6 reads

struct Port {
    int32_t block;
    int32_t address[14];
    int32_t word_shift, word_mask, part_shift, part_mask;
    int32_t begins[PARTS], bit_step, width;  // bit j of part k is bit begins[k] + j * bit_step of the word
    int32_t enable, write;               // nets
    int32_t reads;                       // 0 never, 1 the old word, 2 not while it writes, 3 the new word
    int32_t in[MEMORY_WORD], mask[MEMORY_WORD], out[MEMORY_WORD];
};
struct Block { int32_t words, shared, rubbish; };  // shared: never written, the same in all runs

struct Controlled { size_t first, last; int32_t enable, reset; bool set, gated; };  // flip-flops of the same controls

inline Word choose(Word select, Word high, Word low) { return low ^ (select & (low ^ high)); }

// The value of a table of some inputs; a function is 16 words, as ``Machine::functions`` has them.
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

// While little changes in all runs, only those cells are computed that read a net which has changed. Every cell is a
// unit: tables, products and reads of small memories; then flip-flops, blocks, and writes of small memories, which at a
// clock edge with the same inputs as at the last one do not change anything more.
struct Quiet {
    bool allowed = false, on = false;
    std::vector<int32_t> first, readers;           // units that read a net: readers[first[net]] up to first[net + 1]
    std::vector<int32_t> segment_of;               // per unit that settles
    std::vector<std::vector<int32_t>> waiting;     // per segment
    std::vector<int32_t> at_edge;                  // units for the coming clock edge
    std::vector<uint8_t> queued;                   // per unit
    std::vector<int32_t> changed;                  // nets, of registers, at an edge that was looked at
    std::vector<std::vector<int32_t>> reads_of;    // per small memory, its units
    std::vector<int32_t> block_first, block_last;  // ports, per block with ports
    size_t flip_flops = 0, blocks = 0, writes = 0; // first unit of these kinds; tables come first
    size_t products = 0, reads = 0;
    size_t limit = 0;                              // units of a cycle: with more, all are computed
    int until_look = 0;                            // edges until it is looked again whether little changes
};

struct Machine {
    std::vector<Word> nets;
    std::vector<Segment> segments;
    std::vector<Table> tables;
    std::vector<Word> functions;  // per function 16 words: for every pair of entries the lower one, and their difference
    std::vector<int32_t> codes;   // per function its entries, entry k in bit k
    std::vector<FlipFlop> flip_flops;  // those with the same controls side by side
    std::vector<Controlled> controlled;
    std::vector<int32_t> flip_flop_in, flip_flop_out;
    std::vector<Word> next;
    std::vector<Product> products;
    std::vector<SmallRead> small_reads;
    std::vector<SmallWrite> small_writes;
    std::vector<Word> small;  // per memory, per bit, SMALL words of runs
    std::vector<Port> ports;  // of one block side by side
    std::vector<Block> blocks;
    std::vector<std::vector<uint64_t>> contents;  // per block: words, or RUNS * words
    std::vector<uint64_t> read;                   // per port, RUNS words read at the coming edge
    std::vector<Word> taken;                      // per port, the runs in which it reads
    Word random_state = 0x9e3779b97f4a7c15;

    Quiet quiet;

    void open(int64_t count, uint64_t seed);
    Word random();
    void gather();  // after the last row
    void settle();
    void clock();

    // Set a net from outside.
    void drive(int32_t net, Word value) {
        if (nets[net] == value) return;
        nets[net] = value;
        if (quiet.on) wake(net);
    }

   private:
    void connect_readers();
    void wake(int32_t net);
    void queue(size_t unit);
    void settle_quietly();
    void clock_quietly();
    void evaluate(size_t unit);
    void become_quiet();
    void end_quiet();
    void show_port(size_t port);
    Word next_value(const Controlled&, size_t flip_flop) const;
    void look_up(const Segment&);
    void multiply(const Product&);
    void read_small(const SmallRead&);
    void write_small(size_t);
    void access(size_t first, size_t last);
};

// Rows to columns: bit j of word k becomes bit k of word j.
void transpose(Word* words);
