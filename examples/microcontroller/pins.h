/* Wires from a Raspberry Pi Pico to PMOD 1A of an iCEBreaker, and a ground. */
#define PIN_CIPO 16 /* PMOD 1A, pin 3 */
#define PIN_CS 17   /* pin 1 */
#define PIN_SCK 18  /* pin 4 */
#define PIN_COPI 19 /* pin 2 */
#define PIN_IRQ 20  /* pin 7 */
#define SCK_HZ 6000000
