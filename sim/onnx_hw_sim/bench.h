// Interface between the stream driver (driver.cpp, compiled once per machine) and a circuit (its binding.cpp).
#pragma once
#include <cstdint>

// The three signals of a stream. A payload is little-endian bytes, as Verilator keeps ports of any width.
struct Port {
    void* payload;
    uint32_t bytes;
    uint8_t* valid;
    uint8_t* ready;
};

// One instance of the circuit. Ports are in the order sources, sinks, probes.
struct Bench {
    void (*eval)(void* model);
    void (*dump)(void* model, uint64_t time);  // adds the present values to the waveform; null without tracing
    void* model;
    uint8_t* clk;
    uint8_t* rst;
    const void* fires;  // null without engines
    uint32_t fire_bytes;
    uint32_t sources;
    uint32_t sinks;
    uint32_t probes;
    const Port* ports;
};

const Bench* bench_open(const char* wave_file);  // null or empty: no waveform
void bench_close(const Bench* bench);
