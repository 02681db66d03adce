// Interface between the driver of a serial line (line.cpp, compiled once per machine) and a chip (its binding.cpp).
#pragma once
#include <cstdint>

// One instance of the chip.
struct Line {
    void (*eval)(void* model);
    void* model;
    uint8_t* clk;
    uint8_t* rst;
    uint8_t* rx;        // input of the chip
    const uint8_t* tx;  // output of the chip
    const uint8_t* comes;  // a beat is offered to the network; may be null
};

const Line* line_open();
void line_close(const Line* line);
