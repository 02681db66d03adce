/* Integers of a frame, from floats and back, and their bits in the frame: a part of onnx_hw_link.h, C99. */
#ifndef ONNX_HW_LINK_FRAME_H
#define ONNX_HW_LINK_FRAME_H

#include <math.h>
#include <stdint.h>

/* ONNX's QuantizeLinear: saturate(round_half_even(x / scale) + zero_point), low being the least integer and high the
 * greatest. What is no number becomes low. */
static int32_t onnx_hw_link_quantize(float x, float scale, int32_t zero_point, int32_t low, int32_t high) {
    double n = (double)rintf(x / scale) + zero_point;
    return n > low ? n < high ? (int32_t)n : high : low;
}

/* ONNX's DequantizeLinear. */
static float onnx_hw_link_dequantize(int32_t n, float scale, int32_t zero_point) {
    return (float)((int64_t)n - zero_point) * scale;
}

/* ONNX's Clip, of floats and of integers. */
static float onnx_hw_link_clip(float x, float low, float high) {
    x = x < low ? low : x;
    return x > high ? high : x;
}

static int32_t onnx_hw_link_clip_integer(int32_t n, int32_t low, int32_t high) {
    n = n < low ? low : n;
    return n > high ? high : n;
}

/* QONNX's Quant, the real number on the grid of `scale`; steps are clamped from low to high. */
static float onnx_hw_link_quant(float x, float scale, float zero_point, double low, double high) {
    double steps = x / scale + zero_point;
    steps = steps < low ? low : steps;
    steps = rint(steps > high ? high : steps);
    return (float)((steps - zero_point) * scale);
}

/* Scaler of ai.onnx.ml. */
static float onnx_hw_link_scale(float x, float offset, float scale) {
    return (x - offset) * scale;
}

/* Write the lowest 1 to 32 bits of an integer from bit `at` of a frame on; bits are counted from the lowest one of each
 * byte. */
static void onnx_hw_link_put(uint8_t *frame, uint32_t at, int32_t n, unsigned bits) {
    uint32_t rest = (uint32_t)n;
    while (bits) {
        unsigned from = at & 7u, count = 8u - from < bits ? 8u - from : bits, mask = (1u << count) - 1u;
        frame[at >> 3] = (uint8_t)((frame[at >> 3] & ~(mask << from)) | (rest & mask) << from);
        rest >>= count;
        at += count;
        bits -= count;
    }
}

/* Read the integer of 1 to 32 bits that begins at bit `at` of a frame. */
static int32_t onnx_hw_link_get(const uint8_t *frame, uint32_t at, unsigned bits, int is_signed) {
    uint32_t n = 0;
    unsigned known = 0;
    while (known < bits) {
        unsigned from = at & 7u, count = 8u - from < bits - known ? 8u - from : bits - known;
        n |= ((uint32_t)frame[at >> 3] >> from & ((1u << count) - 1u)) << known;
        known += count;
        at += count;
    }
    if (is_signed && bits < 32 && n >> (bits - 1)) n |= ~(uint32_t)0 << bits;
    return (int32_t)n;
}

#endif
