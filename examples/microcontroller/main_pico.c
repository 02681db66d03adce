/* Classify an image again and again, and print the digit to the Pico's serial port, UART 0 at GP0. */
#include <stdio.h>

#include "digits.h"
#include "hardware/gpio.h"
#include "hardware/spi.h"
#include "pico/stdlib.h"
#include "pins.h"

/* A three, as pixels of 0 .. 16. */
static const uint8_t three[64] = {
    0, 0,  7, 15, 13,  1, 0, 0,  0, 8, 13,  6, 15,  4, 0, 0,  0, 2, 1, 13, 13, 0, 0, 0,  0, 0, 2, 15, 11, 1, 0, 0,
    0, 0,  0,  1, 12, 12, 1, 0,  0, 0,  0,  0,  1, 10, 8, 0,  0, 0, 8,  4,  5, 14, 9, 0, 0, 0, 7, 13, 13, 9, 0, 0,
};

int main(void) {
    float image[64];
    uint8_t number = 0;
    stdio_init_all();
    spi_init(spi0, SCK_HZ); /* mode 0, the highest bit first */
    gpio_set_function(PIN_CIPO, GPIO_FUNC_SPI);
    gpio_set_function(PIN_SCK, GPIO_FUNC_SPI);
    gpio_set_function(PIN_COPI, GPIO_FUNC_SPI);
    gpio_init(PIN_CS);
    gpio_put(PIN_CS, 1);
    gpio_set_dir(PIN_CS, GPIO_OUT);
    gpio_init(PIN_IRQ);
    gpio_pull_down(PIN_IRQ);
    for (int k = 0; k < 64; k++) image[k] = (float)three[k] / 16.0f;
    for (;;) {
        int digit = 0;
        const char *problem = digits_open(0, number++);
        while (!problem) {
            problem = digits_classify(0, image, &digit);
            if (!problem) printf("a %d\n", digit);
            sleep_ms(1000);
        }
        printf("%s\n", problem);
        sleep_ms(1000);
    }
}
