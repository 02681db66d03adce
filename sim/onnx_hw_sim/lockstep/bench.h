// Interface between the driver (driver.cpp, compiled once per machine) and a circuit (its rest.cpp).
#pragma once
#include "vectors.h"

// The three signals of a stream, in all runs.
struct Port {
    V* payload;
    uint32_t words;
    V* valid;
    V* ready;
};

// One instance of the circuit. Ports are in the order sources, sinks, probes.
struct Bench {
    void (*cycle)(void* model);  // computes the outputs from the present inputs, then does the rising edge
    void* model;
    void* owner;
    V* reset;
    const V* fires;  // null without engines
    uint32_t fire_words;
    uint32_t sources;
    uint32_t sinks;
    uint32_t probes;
    const Port* ports;
};

const Bench* bench_open(const uint32_t* tables);  // must outlive the instance
void bench_close(const Bench* bench);
