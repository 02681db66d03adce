/* The C header as a library, one link at a time: what tests/link/test_c_header.py drives in the place of a Session. */
#include "onnx_hw_link.h"

void *open_link(void) {
    static onnx_hw_link link;
    return &link;
}
size_t size_of_link(void) { return sizeof(onnx_hw_link); }
void init(onnx_hw_link *l, const uint8_t *digest, uint32_t in, uint32_t out, uint32_t retry) {
    onnx_hw_link_init(l, digest, in, out);
    l->retry = l->patience = retry;
}
size_t hello(onnx_hw_link *l, uint8_t number, uint8_t *out) { return onnx_hw_link_hello(l, number, out); }
int offer(onnx_hw_link *l, const uint8_t *in, uint8_t *out) { return onnx_hw_link_offer(l, in, out); }
void receive(onnx_hw_link *l, const uint8_t *data, size_t count) { onnx_hw_link_receive(l, data, count); }
size_t transmit(onnx_hw_link *l, uint32_t now, uint8_t *out) { return onnx_hw_link_transmit(l, now, out); }
int greeted(const onnx_hw_link *l) { return l->greeted; }
int refused(const onnx_hw_link *l) { return (int)l->refused; }
uint32_t finished(const onnx_hw_link *l) { return l->finished; }
uint32_t faults(const onnx_hw_link *l) { return l->broken + l->missed + l->silent + l->resent; }
size_t to_wire(uint8_t *out, const uint8_t *header, const uint8_t *payload, size_t size) {
    return onnx_hw_link_to_wire(out, header, payload, size);
}
size_t from_wire(uint8_t *wire, size_t count) { return onnx_hw_link_from_wire(wire, count); }
int32_t quantize(float x, float scale, int32_t zero_point, int32_t low, int32_t high) {
    return onnx_hw_link_quantize(x, scale, zero_point, low, high);
}
float clip(float x, float low, float high) { return onnx_hw_link_clip(x, low, high); }
int32_t clip_integer(int32_t n, int32_t low, int32_t high) { return onnx_hw_link_clip_integer(n, low, high); }
int32_t there_and_back(uint8_t *frame, uint32_t at, int32_t n, unsigned bits, int is_signed) {
    onnx_hw_link_put(frame, at, n, bits);
    return onnx_hw_link_get(frame, at, bits, is_signed);
}
int32_t get(const uint8_t *frame, uint32_t at, unsigned bits, int is_signed) {
    return onnx_hw_link_get(frame, at, bits, is_signed);
}
onnx_hw_link_status open_wire(onnx_hw_link *l, const onnx_hw_link_io *io, uint8_t number, uint32_t timeout) {
    return onnx_hw_link_open(l, io, number, timeout);
}
onnx_hw_link_status run_frame(onnx_hw_link *l, const onnx_hw_link_io *io, const uint8_t *in, uint8_t *out, uint32_t timeout) {
    return onnx_hw_link_run(l, io, in, out, timeout);
}
const char *told(onnx_hw_link_status status) { return onnx_hw_link_told(status); }
float quant(float x, float scale, float zero_point, double low, double high) {
    return onnx_hw_link_quant(x, scale, zero_point, low, high);
}

float scaled(float x, float offset, float scale) { return onnx_hw_link_scale(x, offset, scale); }

float dequantize(int32_t n, float scale, int32_t zero_point) { return onnx_hw_link_dequantize(n, scale, zero_point); }
