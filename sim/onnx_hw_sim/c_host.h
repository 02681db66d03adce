/* A host in C behind pipes: frames, integers and sessions of a build's C header, for onnx_hw/commands/c_host.py.
 *
 * Each request begins with a byte. Numbers are of 32 bits, in the order of this machine. The wire of a session, and its
 * clock, are requests to the other end of the pipes.
 */
#ifndef ONNX_HW_SIM_C_HOST_H
#define ONNX_HW_SIM_C_HOST_H

#include <stdio.h>
#include <stdlib.h>

static void *room(size_t count) {
    void *made = calloc(count ? count : 1, 1);
    if (!made) exit(2);
    return made;
}

static void get(void *to, size_t count) {
    if (fread(to, 1, count, stdin) != count) exit(1);
}

static void put(const void *from, size_t count) {
    if (fwrite(from, 1, count, stdout) != count || fflush(stdout)) exit(1);
}

static uint32_t get_number(void) {
    uint32_t number;
    get(&number, sizeof number);
    return number;
}

static void put_number(uint32_t number) { put(&number, sizeof number); }

static size_t move_bytes(void *wire, const uint8_t *to, size_t count, uint8_t *from, size_t most) {
    uint32_t came;
    (void)wire;
    put("m", 1);
    put_number((uint32_t)count);
    put(to, count);
    put_number((uint32_t)most);
    came = get_number();
    get(from, came);
    return came;
}

static uint32_t milliseconds(void *wire) {
    (void)wire;
    put("n", 1);
    return get_number();
}

/* Open the link and send frames, as many at a time as there may be; answer with the status, and with the results. */
static void hold_session(const uint8_t *digest, uint32_t input_bytes, uint32_t output_bytes) {
    static onnx_hw_link link;
    onnx_hw_link_io io;
    uint32_t count = get_number(), number = get_number(), timeout = get_number(), retry = get_number(), k;
    uint8_t *frames = room((size_t)count * input_bytes), *results = room((size_t)count * output_bytes);
    onnx_hw_link_status status;
    get(frames, (size_t)count * input_bytes);
    io.move = move_bytes;
    io.now_ms = milliseconds;
    io.wire = 0;
    onnx_hw_link_init(&link, digest, input_bytes, output_bytes);
    status = onnx_hw_link_open(&link, &io, (uint8_t)number, timeout);
    link.retry = link.patience = retry;
    put("o", 1); /* from here on the wire may be bad */
    for (k = 0; k < count && !status; k++) {
        while (!status && !onnx_hw_link_offer(&link, frames + (size_t)k * input_bytes, results + (size_t)k * output_bytes))
            status = onnx_hw_link_wait(&link, &io, link.finished + 1, timeout);
    }
    if (!status) status = onnx_hw_link_wait(&link, &io, count, timeout);
    put("r", 1);
    put_number((uint32_t)status);
    put_number(link.began_known);
    put_number(link.ended - link.began);
    put(results, (size_t)count * output_bytes);
    free(frames);
    free(results);
}

#endif
