// Interface between a controller of an SPI bus (spi_bus.cpp, compiled once per machine) and a chip (its binding.cpp).
#pragma once
#include <cstdint>

// One instance of the chip.
struct Bus {
    void (*eval)(void* model);
    void* model;
    uint8_t* clk;
    uint8_t* rst;
    uint8_t* sck;         // inputs of the chip
    uint8_t* cs_n;
    uint8_t* copi;
    const uint8_t* cipo;  // output of the chip
};

const Bus* bus_open();
void bus_close(const Bus* bus);
