// Hosts at the pins of 64 boards at once: bits of a serial line, or of a serial peripheral interface, in and out.
//
// Whoever calls decides what each host sends; here bytes become bits and back, and pins of other kinds have their level.
#include <deque>
#include <memory>

#include "flash.h"
#include "simulation.h"

namespace {

constexpr uint16_t BREAK = 256;   // the line is low for the time of a byte
constexpr uint16_t PAUSE = 1024;  // plus n: the line rests for the time of n bits

// Time in cycles, as a fraction with a fixed denominator: bits need not last a whole number of cycles.
struct Timer {
    int64_t left = 0;
    bool pass(int64_t denominator) { return (left -= denominator) <= 0; }
};

struct Host {
    std::deque<uint16_t> to;
    std::vector<uint8_t> from;
    uint32_t sending = 0, coming = 0;  // bits with a 1 above them; 0 between bytes
    Timer send, come;
    int64_t numerator = 1;             // cycles of a bit, or of half a bit, times the board's denominator
    int phase = 0, bit = 0;            // of an exchange
    uint8_t out = 0, in = 0;
};

struct Level {  // of a pin or a net that nobody speaks over
    int32_t net;
    Word idle;
    struct Window { int32_t run; int64_t from, until; };
    std::vector<Window> windows;  // in which it is the other one
};

struct Board : Simulation {
    int64_t denominator = 1;  // of the cycles of a bit, or of half a bit
    int32_t rx = -1, tx = -1;
    int32_t sck = -1, cs_n = -1, copi = -1, cipo = -1;
    Word line = ~Word(0), clock = 0, chosen_n = ~Word(0), data = 0;
    std::vector<Level> levels;
    Host hosts[RUNS];
    Word watched_runs = 0;
    FlashPins flash_pins;
    std::unique_ptr<Flash> flash;

    Word watched() const override { return watched_runs; }

    void send(Host& host, int run) {
        if (host.sending || host.send.left > 0) {
            if (!host.send.pass(denominator)) return;
            if (host.sending > 1) {
                set(line, run, host.sending & 1);
                host.sending >>= 1;
                host.send.left += host.numerator;
                return;
            }
            host.sending = 0;
        }
        set(line, run, true);
        if (host.to.empty()) {
            host.send.left = 0;
            return;
        }
        const uint16_t word = host.to.front();
        host.to.pop_front();
        if (word >= PAUSE) {
            host.send.left += host.numerator * (word - PAUSE);
            return;
        }
        host.sending = word >= BREAK ? 1u << 9 : 1u << 9 | 1u << 8 | word;  // behind the start bit
        set(line, run, false);
        host.send.left += host.numerator;
    }

    void hear(Host& host, bool level) {
        if (host.coming == 0) {
            if (!level) {
                host.coming = 1;
                host.come.left = host.numerator + host.numerator / 2;
            }
            return;
        }
        if (!host.come.pass(denominator)) return;
        host.come.left += host.numerator;
        if (host.coming < 256) {
            host.coming = host.coming << 1 | level;
            return;
        }
        uint8_t byte = 0;  // a wrong stop bit is not looked at: there is a CRC
        for (int bit = 0; bit < 8; bit++) byte = static_cast<uint8_t>(byte << 1 | (host.coming >> bit & 1));
        host.from.push_back(byte);
        host.coming = 0;
    }

    // Phases: 0 at rest, 1 chosen, 2 the clock is low, 3 the clock is high, 4 about to end, 5 after it.
    void exchange(Host& host, int run, Word out) {
        if (host.phase && !host.come.pass(denominator)) return;
        switch (host.phase) {
            case 0:
                if (host.to.empty()) return;
                set(chosen_n, run, false);
                host.phase = 1;
                host.come.left = 0;
                break;
            case 1:
                if (host.bit == 0) {
                    host.out = static_cast<uint8_t>(host.to.front());
                    host.to.pop_front();
                    host.in = 0;
                }
                set(data, run, host.out >> (7 - host.bit) & 1);
                set(clock, run, false);
                host.phase = 2;
                break;
            case 2:
                host.in = static_cast<uint8_t>(host.in << 1 | (out >> run & 1));
                set(clock, run, true);
                host.phase = 1;
                if (++host.bit == 8) {
                    host.bit = 0;
                    host.from.push_back(host.in);
                    if (host.to.empty()) host.phase = 3;
                }
                break;
            case 3:
                set(clock, run, false);
                host.phase = 4;
                break;
            case 4:
                set(chosen_n, run, true);
                host.phase = 5;
                break;
            default:
                host.phase = 0;
        }
        host.come.left += host.numerator;
    }

    void drive_levels() {
        for (const Level& level : levels) {
            Word word = level.idle;
            for (const Level::Window& window : level.windows) {
                if (cycle >= window.from && cycle < window.until) word ^= Word(1) << window.run;
            }
            machine.drive(level.net, word);
        }
    }

    // The flash answers within the cycle in which its pins change, by what has settled: they come from registers.
    void show_flash() {
        Word out[4], driven[4];
        for (int k = 0; k < 4; k++) {
            out[k] = machine.nets[flash_pins.out[k]];
            driven[k] = ~machine.nets[flash_pins.off[k]];
        }
        const Word* data = flash->step(machine.nets[flash_pins.clock], machine.nets[flash_pins.select_n], out, driven);
        for (int k = 0; k < 4; k++) {
            if (flash_pins.into[k] >= 0) machine.drive(flash_pins.into[k], choose(driven[k], out[k], data[k]));
        }
        if (flash_pins.settles) machine.settle();
    }

    void step() override {
        drive_levels();
        if (rx >= 0) {
            for (int k = 0; k < RUNS; k++) send(hosts[k], k);
            machine.drive(rx, line);
        } else {
            const Word out = machine.nets[cipo];
            for (int k = 0; k < RUNS; k++) exchange(hosts[k], k, out);
            machine.drive(sck, clock);
            machine.drive(cs_n, chosen_n);
            machine.drive(copi, data);
        }
        machine.settle();
        if (flash) show_flash();
        if (tx >= 0) {
            const Word level = machine.nets[tx];
            for (int k = 0; k < RUNS; k++) hear(hosts[k], level >> k & 1);
        }
        count_toggles();
        machine.clock();
        cycle++;
    }
};

Board& board(void* handle) { return static_cast<Board&>(simulation(handle)); }

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void* pins_open(int64_t nets, uint64_t seed, int64_t numerator, int64_t denominator, int32_t quiet) {
    Board* made = new Board;
    made->machine.quiet.allowed = quiet != 0;
    made->machine.open(nets, seed);
    for (Host& host : made->hosts) host.numerator = numerator;
    made->denominator = denominator;
    return static_cast<Simulation*>(made);
}

// The bits of a host last another time than those of the others.
void pins_pace(void* handle, int32_t run, int64_t numerator) { board(handle).hosts[run].numerator = numerator; }

void pins_uart(void* handle, int32_t rx, int32_t tx) {
    board(handle).rx = rx;
    board(handle).tx = tx;
}

void pins_spi(void* handle, int32_t sck, int32_t cs_n, int32_t copi, int32_t cipo) {
    Board& b = board(handle);
    b.sck = sck;
    b.cs_n = cs_n;
    b.copi = copi;
    b.cipo = cipo;
}

// A pin with a level, which is the other one in windows; returns its number.
int32_t pins_level(void* handle, int32_t net, int32_t high) {
    board(handle).levels.push_back(Level{net, high ? ~Word(0) : 0, {}});
    return int32_t(board(handle).levels.size()) - 1;
}

void pins_window(void* handle, int32_t level, int32_t run, int64_t from, int64_t until) {
    board(handle).levels[level].windows.push_back(Level::Window{run, from, until});
}

void pins_watched(void* handle, uint64_t runs) { board(handle).watched_runs = runs; }

void pins_send(void* handle, int32_t run, const uint16_t* words, int64_t count) {
    Host& host = board(handle).hosts[run];
    host.to.insert(host.to.end(), words, words + count);
}

// Drop what a host has not begun to send.
void pins_drop(void* handle, int32_t run) { board(handle).hosts[run].to.clear(); }

// A flash at these nets: clock, select, four outputs of the chip, four nets that switch them off, four inputs; its times.
void pins_flash(void* handle, const int32_t* nets, int32_t settles, int64_t base, const int32_t* times) {
    Board& b = board(handle);
    b.flash_pins = FlashPins{nets[0], nets[1], {}, {}, {}, settles != 0};
    for (int k = 0; k < 4; k++) {
        b.flash_pins.out[k] = nets[2 + k];
        b.flash_pins.off[k] = nets[6 + k];
        b.flash_pins.into[k] = nets[10 + k];
    }
    b.flash.reset(new Flash(base, FlashTimes{times[0], times[1], times[2], times[3], times[4], times[5], times[6]}));
}

// Bytes from the base on, in one run, or in all where that is negative; all others are erased.
void pins_flash_contents(void* handle, int32_t run, const uint8_t* bytes, int64_t count) {
    board(handle).flash->hold(run, bytes, count);
}

// The first fault of each run.
void pins_flash_faults(void* handle, uint8_t* faults) {
    for (int k = 0; k < RUNS; k++) faults[k] = board(handle).flash->faults[k];
}

uint64_t pins_word(void* handle, int32_t net) { return board(handle).machine.nets[net]; }

// Per run: the words that wait to be sent, and the bytes that have come.
void pins_state(void* handle, int64_t* waiting, int64_t* come) {
    for (int k = 0; k < RUNS; k++) {
        waiting[k] = int64_t(board(handle).hosts[k].to.size());
        come[k] = int64_t(board(handle).hosts[k].from.size());
    }
}

void pins_take(void* handle, int32_t run, uint8_t* bytes) {
    std::vector<uint8_t>& from = board(handle).hosts[run].from;
    std::copy(from.begin(), from.end(), bytes);
    from.clear();
}

}  // extern "C"
#pragma GCC visibility pop
