/* SPI 0 of an RP2040 (Pico SDK); `wire` points to nothing. */
#include "hal.h"
#include "hardware/gpio.h"
#include "hardware/spi.h"
#include "pico/stdlib.h"
#include "pins.h"

size_t hal_move(void *wire, const uint8_t *to, size_t count, uint8_t *from, size_t most) {
    (void)wire;
    if (count == 0) { /* nothing to send: take what the chip has, if it has anything */
        if (!gpio_get(PIN_IRQ)) return 0;
        count = most < 32 ? most : 32;
        to = 0;
    }
    gpio_put(PIN_CS, 0);
    if (to)
        spi_write_read_blocking(spi0, to, from, count);
    else
        spi_read_blocking(spi0, 0, from, count);
    gpio_put(PIN_CS, 1);
    return count;
}

uint32_t hal_now_ms(void *wire) {
    (void)wire;
    return to_ms_since_boot(get_absolute_time());
}
