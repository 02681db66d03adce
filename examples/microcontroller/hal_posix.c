/* A serial port of Linux or macOS; `wire` points to its file descriptor. */
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "hal.h"

size_t hal_move(void *wire, const uint8_t *to, size_t count, uint8_t *from, size_t most) {
    struct pollfd port = {*(int *)wire, POLLIN, 0};
    ssize_t come;
    while (count) {
        ssize_t gone = write(port.fd, to, count);
        if (gone < 0) return HAL_FAILED;
        to += gone;
        count -= (size_t)gone;
    }
    if (poll(&port, 1, 1) <= 0) return 0; /* a millisecond without a byte */
    come = read(port.fd, from, most);
    return come > 0 ? (size_t)come : HAL_FAILED;
}

uint32_t hal_now_ms(void *wire) {
    struct timespec now;
    (void)wire;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint32_t)(now.tv_sec * 1000 + now.tv_nsec / 1000000);
}
