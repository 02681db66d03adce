// The cycle loop of a chip at an SPI bus, mode 0, bit by bit: bytes both ways.
//
// Half a bit: set the inputs, then let the chip's clock run for as many cycles as begin within that time.
#include "spi_bus.h"

#include <exception>
#include <stdexcept>
#include <string>

namespace {

struct Simulation {
    const Bus* bus = bus_open();
    double half;  // cycles of half a bit
    double time = 0;
    int64_t cycle = 0;
    std::string error;

    explicit Simulation(double cycles_per_bit) : half(cycles_per_bit / 2) {
        *bus->rst = 0;
        *bus->sck = 0;
        *bus->copi = 0;
        *bus->cs_n = 1;
    }
    ~Simulation() { bus_close(bus); }

    void pass() {
        for (time += half; double(cycle) < time; cycle++) {
            *bus->clk = 0;
            bus->eval(bus->model);
            *bus->clk = 1;
            bus->eval(bus->model);
        }
    }

    uint8_t exchange(uint8_t to) {
        uint8_t from = 0;
        for (int bit = 7; bit >= 0; bit--) {
            *bus->copi = to >> bit & 1;
            *bus->sck = 0;
            pass();
            from = static_cast<uint8_t>(from << 1 | *bus->cipo);  // as the controller's clock rises
            *bus->sck = 1;
            pass();
        }
        return from;
    }
};

}  // namespace

#pragma GCC visibility push(default)  // everything else in the library stays hidden
extern "C" {

void* bus_simulation_open(double cycles_per_bit) { return new Simulation(cycles_per_bit); }
void bus_simulation_close(void* handle) { delete static_cast<Simulation*>(handle); }
int64_t bus_simulation_cycle(void* handle) { return static_cast<Simulation*>(handle)->cycle; }
const char* bus_simulation_error(void* handle) { return static_cast<Simulation*>(handle)->error.c_str(); }

// Choose the chip, exchange `count` bytes, and choose it no more. Returns 0, or -1 on an error.
int bus_simulation_exchange(void* handle, const uint8_t* to, uint8_t* from, int64_t count) {
    auto& s = *static_cast<Simulation*>(handle);
    try {
        *s.bus->cs_n = 0;
        s.pass();
        for (int64_t k = 0; k < count; k++) from[k] = s.exchange(to[k]);
        *s.bus->sck = 0;
        s.pass();
        *s.bus->cs_n = 1;
        s.pass();
    } catch (const std::exception& error) {
        s.error = error.what();
        return -1;
    }
    return 0;
}

}  // extern "C"
#pragma GCC visibility pop

// Verilator's runtime ends the process on an error (for example a combinational loop). Here it ends only the run.
void vl_fatal(const char*, int, const char*, const char* message) { throw std::runtime_error(message); }
void vl_stop(const char*, int, const char*) { throw std::runtime_error("the circuit said $stop"); }
void vl_finish(const char*, int, const char*) { throw std::runtime_error("the circuit said $finish"); }
