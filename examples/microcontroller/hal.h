/* Two functions that differ from host to host: one moves bytes, the other one is a clock. onnx_hw_link.h defines both.
 *
 * hal_posix.c is a serial port, hal_pico_spi.c the SPI of an RP2040. */
#ifndef HAL_H
#define HAL_H

#include <stddef.h>
#include <stdint.h>

#define HAL_FAILED ((size_t)-1) /* as ONNX_HW_LINK_FAILED */

/* Send `count` bytes, and return how many came into `from`, at most `most`. */
size_t hal_move(void *wire, const uint8_t *to, size_t count, uint8_t *from, size_t most);

/* Return milliseconds; they may begin anywhere, and overflow. */
uint32_t hal_now_ms(void *wire);

#endif
