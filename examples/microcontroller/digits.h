/* Digits on the FPGA, from any host: each function returns 0, or a sentence that says what went wrong. */
#ifndef DIGITS_APPLICATION_H
#define DIGITS_APPLICATION_H

#include <stdint.h>

/* Greet the chip. Another `number` than the last time tells its answers apart. */
const char *digits_open(void *wire, uint8_t number);

/* Classify an image of 8 rows of 8 pixels in 0 .. 1; `digit` becomes 0 .. 9. */
const char *digits_classify(void *wire, const float image[64], int *digit);

#endif
