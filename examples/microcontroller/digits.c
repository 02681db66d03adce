/* Digits on the FPGA: what is the same on every host. */
#include "digits.h"

#include "digits_link.h" /* python -m onnx_hw_link.c_header digits-BOARD > digits_link.h */
#include "hal.h"

static onnx_hw_link chip;
static uint8_t frame[DIGITS_INPUT_BYTES];
static uint8_t results[DIGITS_OUTPUT_BYTES];

const char *digits_open(void *wire, uint8_t number) {
    onnx_hw_link_io io = {hal_move, hal_now_ms, wire};
    onnx_hw_link_status status;
    onnx_hw_link_init(&chip, digits_digest, DIGITS_INPUT_BYTES, DIGITS_OUTPUT_BYTES);
    status = onnx_hw_link_open(&chip, &io, number, 1500);
    return status ? onnx_hw_link_told(status) : 0;
}

const char *digits_classify(void *wire, const float image[64], int *digit) {
    onnx_hw_link_io io = {hal_move, hal_now_ms, wire};
    onnx_hw_link_status status;
    int32_t scores[10];
    digits_enter_image(image, frame);
    status = onnx_hw_link_run(&chip, &io, frame, results, 1500);
    if (status) return onnx_hw_link_told(status);
    digits_leave_scores_int8(results, scores);
    *digit = 0; /* the greatest score; the Softmax of the model would not change which one that is */
    for (int k = 1; k < 10; k++)
        if (scores[k] > scores[*digit]) *digit = k;
    return 0;
}
