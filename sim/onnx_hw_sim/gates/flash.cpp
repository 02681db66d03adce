#include "flash.h"

Flash::Flash(int64_t base, FlashTimes times) : base(base), times(times), lead(8 + 6 + 2 + times.dummy) {
    for (Run& run : runs) {
        run.bytes = std::make_shared<std::vector<uint8_t>>();
        run.edge = run.rise = run.deselected = -(int64_t(1) << 40);
    }
}

void Flash::hold(int32_t run, const uint8_t* bytes, int64_t count) {
    const auto held = std::make_shared<std::vector<uint8_t>>(bytes, bytes + count);
    for (int k = 0; k < RUNS; k++) {
        if (run < 0 || k == run) runs[k].bytes = held;
    }
}

void Flash::rise(Run& run, int k, const Word* out) {
    const bool reads = sends(run);
    if (cycle - run.edge < times.low || cycle - run.rise < times.period) fault(k, CLOCK_TOO_FAST);
    if (run.clocks == 8) {
        if (run.command == 0xEB && !(run.awake && cycle > run.awake_from)) fault(k, ASLEEP);
        if (run.command != 0xEB && run.command != 0xAB) fault(k, UNKNOWN_COMMAND);
    }
    const int bits = nibble(out, k);
    if (run.clocks == 14 && bits == 0xA) fault(k, CONTINUOUS_READ);
    if (!reads && run.clocks < 16 && bits != nibble(data_before, k)) fault(k, UNSTABLE_INPUT);
    if (run.clocks < 8) {
        run.command = uint8_t(run.command << 1 | (bits & 1));
    } else if (run.clocks < 14) {
        run.address = (run.address << 4 | uint32_t(bits)) & 0xFFFFFF;
    }
    if (run.clocks < lead) run.clocks++;
    run.edge = run.rise = cycle;
}

void Flash::fall(Run& run, int k) {
    if (cycle - run.edge < times.high) fault(k, CLOCK_TOO_FAST);
    run.edge = cycle;
    if (!sends(run)) return;
    const int64_t place = int64_t(run.address) - base;
    const uint8_t byte = place >= 0 && place < int64_t(run.bytes->size()) ? (*run.bytes)[size_t(place)] : 0xFF;
    run.bits = run.low ? byte & 15 : byte >> 4;
    if (run.low) run.address = (run.address + 1) & 0xFFFFFF;
    run.low = !run.low;
    run.left = times.invalid;
    if (run.left) late |= Word(1) << k;
    show(run, k);
}

// Until they are valid the bits are the complement of what they will be.
void Flash::show(Run& run, int k) {
    const int bits = run.left ? ~run.bits : run.bits;
    for (int j = 0; j < 4; j++) shown[j] = (shown[j] & ~(Word(1) << k)) | Word(bits >> j & 1) << k;
}

const Word* Flash::step(Word clock, Word select_n, const Word* out, const Word* driven) {
    for (Word left = late; left; left &= left - 1) {
        const int k = __builtin_ctzll(left);
        if (--runs[k].left == 0) {
            late &= ~(Word(1) << k);
            show(runs[k], k);
        }
    }
    for (Word chosen = ~select_n & select_before; chosen; chosen &= chosen - 1) {
        const int k = __builtin_ctzll(chosen);
        if (cycle - runs[k].deselected < times.deselect) fault(k, SELECTED_TOO_SOON);
    }
    for (Word ends = select_n & ~select_before; ends; ends &= ends - 1) {
        const int k = __builtin_ctzll(ends);
        Run& run = runs[k];
        if (run.clocks == 8 && run.command == 0xAB) {
            run.awake = true;
            run.awake_from = cycle + times.wake;
        } else if (run.clocks == 8 && run.command != 0xEB) {
            fault(k, UNKNOWN_COMMAND);
        }
        run.clocks = 0;
        run.low = false;
        run.deselected = cycle;
    }
    const Word rises = clock & ~clock_before & ~select_n, falls = ~clock & clock_before & ~select_n;
    for (Word left = rises; left; left &= left - 1) rise(runs[__builtin_ctzll(left)], __builtin_ctzll(left), out);
    for (Word left = falls; left; left &= left - 1) fall(runs[__builtin_ctzll(left)], __builtin_ctzll(left));
    Word drives = (driven[0] | driven[1] | driven[2] | driven[3]) & ~select_n & ~clock & ~clock_before;
    for (; drives; drives &= drives - 1) {
        const int k = __builtin_ctzll(drives);
        if (sends(runs[k])) fault(k, BOTH_DRIVE);
    }
    clock_before = clock;
    select_before = select_n;
    for (int j = 0; j < 4; j++) data_before[j] = out[j];
    cycle++;
    return shown;
}
