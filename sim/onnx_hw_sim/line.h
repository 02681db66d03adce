// What the driver of a serial line (line.cpp, compiled once per machine) knows of a chip (binding.cpp, one per chip).
#pragma once
#include <cstdint>

// One instance of the chip.
struct Line {
    void (*eval)(void* model);
    void* model;
    uint8_t* clk;
    uint8_t* rst;
    uint8_t* rx;        // of the chip
    const uint8_t* tx;  // of the chip
    const uint8_t* comes;  // a beat for the network; may be null
};

const Line* line_open();
void line_close(const Line* line);
