/* digits_posix PORT < images.txt: images of 64 numbers in 0 .. 1 each; prints a digit for each of them. */
#include <fcntl.h>
#include <stdio.h>
#include <termios.h>
#include <unistd.h>

#include "digits.h"

#ifndef BAUD
#define BAUD B1000000 /* the rate of the board's link: `onnx-hw boards` */
#endif

int main(int count, char **arguments) {
    struct termios settings;
    float image[64];
    int port, pixels = 0, digit;
    const char *problem;
    if (count != 2) {
        fputs("one argument: the serial port of the board, such as /dev/ttyUSB1\n", stderr);
        return 1;
    }
    port = open(arguments[1], O_RDWR | O_NOCTTY);
    if (port < 0 || tcgetattr(port, &settings)) {
        perror(arguments[1]);
        return 1;
    }
    cfmakeraw(&settings);
    cfsetspeed(&settings, BAUD);
    tcsetattr(port, TCSANOW, &settings);
    problem = digits_open(&port, (uint8_t)getpid());
    while (!problem && scanf("%f", &image[pixels]) == 1) {
        if (++pixels < 64) continue;
        pixels = 0;
        problem = digits_classify(&port, image, &digit);
        if (!problem) printf("%d\n", digit);
    }
    if (problem) fprintf(stderr, "%s\n", problem);
    close(port);
    return problem != 0;
}
