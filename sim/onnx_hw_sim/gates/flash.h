// A serial flash at the pins of 64 boards at once, each with contents of its own, which checks its timing.
//
// It knows what a reader uses: the release from power-down (ABh), and FAST READ QUAD I/O (EBh). Pins are looked at once a
// cycle, so a time is a number of whole cycles. It is the second such model: onnx_hw_rtl/memory/flash_model.py is a
// circuit, for simulations of the reader's own one; tests compare the two.
#pragma once
#include <memory>

#include "interpreter.h"

struct FlashPins {
    int32_t clock = -1, select_n = -1, out[4] = {}, off[4] = {}, into[4] = {};
    bool settles = false;  // whether cells read its bits within the cycle
};

// In cycles; see FlashPart of the other model. invalid: cycles after a falling edge in which the bits are not there yet.
struct FlashTimes { int32_t low, high, period, deselect, wake, invalid, dummy; };

enum FlashFault : uint8_t {
    NO_FAULT, CLOCK_TOO_FAST, SELECTED_TOO_SOON, ASLEEP, UNKNOWN_COMMAND, CONTINUOUS_READ, BOTH_DRIVE, UNSTABLE_INPUT
};

class Flash {
   public:
    Flash(int64_t base, FlashTimes times);

    void hold(int32_t run, const uint8_t* bytes, int64_t count);

    // A cycle: the pins, and which data pins the chip drives; returns the bits that the flash shows.
    const Word* step(Word clock, Word select_n, const Word* out, const Word* driven);

    uint8_t faults[RUNS] = {};

   private:
    struct Run {
        std::shared_ptr<std::vector<uint8_t>> bytes;
        bool awake = false, low = false;  // low: the lower half of a byte is next
        int64_t awake_from = 0, edge, rise, deselected;
        int32_t clocks = 0, left = 0;     // left: cycles until the bits are there
        uint8_t command = 0, bits = 0;
        uint32_t address = 0;
    };

    void rise(Run& run, int k, const Word* out);
    void fall(Run& run, int k);
    void show(Run& run, int k);
    void fault(int run, FlashFault found) {
        if (!faults[run]) faults[run] = found;
    }
    static int nibble(const Word* pins, int run) {
        return int(pins[0] >> run & 1) | int(pins[1] >> run & 1) << 1 | int(pins[2] >> run & 1) << 2 |
               int(pins[3] >> run & 1) << 3;
    }
    bool sends(const Run& run) const { return run.command == 0xEB && run.clocks == lead; }

    int64_t base, cycle = 0;
    FlashTimes times;
    int32_t lead;  // clocks of a command before its first data
    Word clock_before = 0, select_before = ~Word(0), data_before[4] = {}, shown[4] = {}, late = 0;
    Run runs[RUNS];
};
