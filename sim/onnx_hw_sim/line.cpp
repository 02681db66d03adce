// The cycle loop of a chip at a serial line, bit by bit: bytes in, bytes out.
//
// One cycle: set the inputs, settle with the clock low, sample the line, rising edge.
#include "line.h"

#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct Simulation {
    const Line* line = line_open();
    int64_t divisor;
    int64_t cycle = 0;
    // To the chip: bits that are still to be sent, the lowest first; 1 or 0 between bytes.
    uint32_t sending = 0;
    int64_t send_left = 0;
    // From the chip: bits received so far, with a 1 above them; 0 between bytes.
    uint32_t coming = 0;
    int64_t come_left = 0;
    std::vector<int64_t> comes;  // cycles in which a beat came to the network
    std::string error;

    explicit Simulation(int64_t d) : divisor(d) {
        *line->rx = 1;
        *line->rst = 0;
    }
    ~Simulation() { line_close(line); }

    void edge() {
        *line->clk = 0;
        line->eval(line->model);
        *line->clk = 1;
        line->eval(line->model);
        cycle++;
        if (line->comes && *line->comes) comes.push_back(cycle);
    }
};

}  // namespace

#pragma GCC visibility push(default)  // everything else in the library stays hidden
extern "C" {

void* line_simulation_open(int64_t divisor) { return new Simulation(divisor); }
void line_simulation_close(void* handle) { delete static_cast<Simulation*>(handle); }
int64_t line_simulation_came(void* handle) { return int64_t(static_cast<Simulation*>(handle)->comes.size()); }
const int64_t* line_simulation_comes(void* handle) { return static_cast<Simulation*>(handle)->comes.data(); }
int64_t line_simulation_cycle(void* handle) { return static_cast<Simulation*>(handle)->cycle; }
const char* line_simulation_error(void* handle) { return static_cast<Simulation*>(handle)->error.c_str(); }

// Simulate `cycles` cycles and send `to` (bytes; 256 and more break the line for the time of a byte) one after the
// other. Received bytes are written to `from`, at most `most` of them; a run ends early when `from` is full.
// Returns the number of received bytes, or -1 on an error; `*sent` is the number of bytes of `to` that have begun.
int64_t line_simulation_run(void* handle, int64_t cycles, const uint16_t* to, int64_t count, int64_t* sent,
                            uint8_t* from, int64_t most) {
    auto& s = *static_cast<Simulation*>(handle);
    int64_t came = 0;
    *sent = 0;
    try {
        for (int64_t k = 0; k < cycles && came < most; k++) {
            if (s.send_left == 0) {
                if (s.sending <= 1 && *sent < count) {
                    const uint32_t word = to[(*sent)++];
                    s.sending = word > 255 ? 1u << 10 : 1u << 10 | 1u << 9 | word << 1;
                }
                if (s.sending > 1) {
                    *s.line->rx = s.sending & 1;
                    s.send_left = s.divisor;
                    s.sending >>= 1;
                } else {
                    *s.line->rx = 1;
                    s.sending = 0;
                }
            }
            if (s.send_left > 0) s.send_left--;
            s.edge();
            const bool level = *s.line->tx;
            if (s.coming == 0) {
                if (!level) {
                    s.coming = 1;
                    s.come_left = s.divisor + s.divisor / 2;
                }
            } else if (--s.come_left == 0) {
                s.come_left = s.divisor;
                if (s.coming < 256) {
                    s.coming = s.coming << 1 | level;
                } else {  // the stop bit
                    uint8_t byte = 0;
                    for (int bit = 0; bit < 8; bit++) byte = static_cast<uint8_t>(byte << 1 | (s.coming >> bit & 1));
                    if (!level) throw std::runtime_error("the chip sent a byte without a stop bit");
                    from[came++] = byte;
                    s.coming = 0;
                }
            }
        }
    } catch (const std::exception& error) {
        s.error = error.what();
        return -1;
    }
    return came;
}

}  // extern "C"
#pragma GCC visibility pop

// Verilator's runtime ends the process on an error (for example a combinational loop). Here it ends only the run.
void vl_fatal(const char*, int, const char*, const char* message) { throw std::runtime_error(message); }
void vl_stop(const char*, int, const char*) { throw std::runtime_error("the circuit said $stop"); }
void vl_finish(const char*, int, const char*) { throw std::runtime_error("the circuit said $finish"); }
