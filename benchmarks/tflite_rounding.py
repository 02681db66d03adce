"""How many results of a product TFLite requantizes to another integer than one rounding does.

    python benchmarks/tflite_rounding.py [N]

TFLite's kernels (``MultiplyByQuantizedMultiplier`` in ``tensorflow/lite/kernels/internal/common.h``) multiply a sum by
a slope of 31 bits, m/2^31 · 2^-n with m ≥ 2^30: first the product is rounded to multiples of 2^-n, then those to
integers, a half away from 0. What the first rounding makes a half was none. Kernels that are built with
``TFLITE_SINGLE_ROUNDING`` round once, a half upwards. For each n slopes are drawn, and N sums whose results have eight
bits.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

SLOPES = 16
SHIFTS = (0, 2, 4, 5, 6, 7, 8, 10, 12)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=1_000_000, metavar="N")
    count = parser.parse_args().count
    print(f"{'slopes':>18} {'twice':>9} {'once':>9} {'steps':>6}")
    for shift in SHIFTS:
        found = [differing(shift, seed, count // SLOPES) for seed in range(SLOPES)]
        twice, once = (float(np.mean([one[k] for one in found])) for k in (0, 1))
        name = f"2^-{shift + 1} .. 2^-{shift}"
        print(f"{name:>18} {twice:9.4%} {once:9.4%} {max(one[2] for one in found):6}")


def differing(shift: int, seed: int, count: int) -> tuple[float, float, int]:
    """Shares of results unlike those of one exact rounding, rounded twice and once; steps apart at most.

    The slope has 40 bits, so that the product with a sum is exact in 63.
    """
    generator = np.random.default_rng((shift, seed))
    slope = int(generator.integers(1 << 39, 1 << 40))  # · 2^-(40 + shift)
    reach = (127 << 40 + shift) // slope
    sums = generator.integers(-reach, reach + 1, count)
    wanted = half_to_even(sums * slope, 40 + shift)
    multiplier = min((slope + (1 << 8)) >> 9, (1 << 31) - 1)
    twice = half_away_from_0(doubling_high_product(sums, multiplier), shift)
    once = (sums * multiplier + (1 << 30 + shift)) >> 31 + shift
    apart = [np.abs(found - wanted) for found in (twice, once)]
    return float((apart[0] > 0).mean()), float((apart[1] > 0).mean()), int(max(array.max() for array in apart))


def doubling_high_product(numbers: np.ndarray, multiplier: int) -> np.ndarray:
    """gemmlowp's ``SaturatingRoundingDoublingHighMul``: numbers · multiplier / 2^31, rounded."""
    products = numbers * multiplier
    nudged = products + np.where(products >= 0, 1 << 30, 1 - (1 << 30))
    return np.sign(nudged) * (np.abs(nudged) >> 31)


def half_away_from_0(numbers: np.ndarray, shift: int) -> np.ndarray:
    """gemmlowp's ``RoundingDivideByPOT``."""
    return np.sign(numbers) * ((np.abs(numbers) + ((1 << shift) >> 1)) >> shift)


def half_to_even(numbers: np.ndarray, shift: int) -> np.ndarray:
    """numbers / 2^shift."""
    below, rest, half = numbers >> shift, numbers & ((1 << shift) - 1), 1 << shift - 1
    return below + ((rest > half) | ((rest == half) & (below & 1 == 1)))


if __name__ == "__main__":
    sys.exit(main())
