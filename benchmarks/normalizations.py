"""Softmax, normalizations and quotients: golden against fractions, and against the real formulas at 60 digits.

    nice python benchmarks/normalizations.py [CASES]
    nice python benchmarks/normalizations.py --roundings

Draws CASES results of each kind (100,000 unless given), a fifth of them of few distinct elements, so that there are
ties. Prints how many differ from the second implementation (none), and the share of results on 8 bits that differ from
the real formula; a quotient of two tensors is that formula, rounded once. ``--roundings`` tells which of the roundings
in a normalization is to blame, and what more bits would save.
"""

from __future__ import annotations

import sys
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "ops"))

import test_divide
import test_normalize
import test_softmax

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.ops.divide import Divide
from onnx_hw.ops.normalize import Normalize
from onnx_hw.ops.tensor import Tensor

DIGITS = Context(prec=60)
STEPS_OF_ONE = 32
"""Steps of the 8-bit result of a normalization that stand for 1."""


def rows(draw: np.random.Generator, low: int, high: int, count: int, size: int) -> np.ndarray:
    """Draw rows of any size of numbers, a fifth of them of few distinct ones."""
    spread = np.exp(draw.uniform(-1.2, 1.2, (count, 1))) / 3.4
    drawn = draw.normal(0, (high - low) / 6, (count, size)) * spread + (high + low) / 2
    few = draw.integers(0, 3, (count, size)) + draw.integers(low, high - 2, (count, 1))
    chosen = np.where(draw.random((count, 1)) < 0.2, few, np.rint(drawn))
    return np.clip(chosen, low, high).astype(np.int64)


def real_shares(row: list[int], step: Fraction) -> list[Decimal]:
    with localcontext(DIGITS):
        scale = Decimal(step.numerator) / Decimal(step.denominator)
        powers = [(scale * (x - max(row))).exp() for x in row]
        return [256 * power / sum(powers) for power in powers]


def real_normalization(operator: Normalize, row: list[int]) -> list[Decimal]:
    with localcontext(DIGITS):
        mean = sum(row) if operator.centered else 0
        w = operator.weight * sum(x * x for x in row) - mean * mean + Decimal(operator.epsilon) / 4**operator.finer
        return [STEPS_OF_ONE * (operator.weight * x - mean) / w.sqrt() if w else Decimal(0) for x in row]


def integers(numbers: list[Decimal]) -> list[int]:
    return [min(int(number.quantize(Decimal(1), ROUND_HALF_EVEN)), 255) for number in numbers]


def report(name: str, wrong: int, apart: int, worst: int, total: int) -> None:
    print(
        f"{name:34} {total:8,} results, {wrong} differ from fractions; at 8 bits {100 * apart / total:.4f} % differ",
        end="",
    )
    print(f" from the real formula, by at most {worst}", flush=True)


def share_apart(
    x: np.ndarray, operator: Normalize, bits: tuple[float, float, float], steps: int = STEPS_OF_ONE
) -> float:
    """The share of results that differ from the real formula, in %, with other bits of r, u and t; infinitely many
    bits are no rounding. In 64-bit mantissas, which decide all but some 10^-12 of the results.
    """
    long, size = np.longdouble, x.shape[1]
    total, squares = x.sum(axis=1, keepdims=True), (x * x).sum(axis=1, keepdims=True)
    w = (size * squares - total * total << 2 * operator.finer) + operator.epsilon
    distance, root = (size * x - total << operator.finer).astype(long), np.sqrt(w.astype(long))
    scale = np.exp2(np.floor(np.log2(root)) + 1)

    def rounded(numbers: np.ndarray, point: float) -> np.ndarray:
        return np.rint(numbers * 2**point) / long(2) ** point if np.isfinite(point) else numbers

    of_root, of_share, of_result = bits
    share = rounded(distance / scale, of_share) * rounded(scale / root, of_root - 1)
    return float(100 * (np.rint(rounded(share, of_result) * steps) != np.rint(distance / root * steps)).mean())


def roundings() -> None:
    draw = np.random.default_rng(1)
    for size in (16, 64, 384):
        for bits in (8, 16):
            epsilon, finer = (10**6, 0) if bits == 16 else (1 << 17, 6)
            operator = Normalize(Tensor((1, 1, size), Int(bits)), True, size, epsilon, finer)
            x = rows(draw, -(1 << bits - 1), (1 << bits - 1) - 1, 1_500_000 // size, size)
            inf = float("inf")
            tried = ((16, 18, 18), (16, inf, inf), (inf, 18, inf), (inf, inf, 18), (18, 18, 18), (20, 22, 22))
            shares = [f"{kinds} {share_apart(x, operator, kinds):.4f} %" for kinds in tried]
            shares.append(f"20 steps for 1: {share_apart(x, operator, tried[0], 20):.4f} %")
            print(f"{size} elements, int{bits}: {', '.join(shares)}", flush=True)


def quotients(cases: int) -> None:
    """Compare quotients with fractions; in the second half the numerator is an odd number of half divisors: ties."""
    draw = np.random.default_rng(5)
    one = (1, 1, cases)
    for a_bits, b_bits, factor in ((8, 8, Fraction(4)), (16, 8, Fraction(1, 2)), (16, 16, test_divide.FLOAT_RATIO)):
        types = Int(a_bits), Int(b_bits, False)
        operator = Divide(
            Tensor(one, types[0]), Tensor(one, types[1]), (0, 0), factor, Grid.over(Int(12), Fraction(1), 3)
        )
        a, b = (draw.integers(of.min, of.max + 1, cases) for of in types)
        odd = 2 * draw.integers(-8, 8, cases // 2) + 1
        halves = [round(k * int(d) / (2 * factor)) for k, d in zip(odd, b, strict=False)]
        a[: cases // 2] = np.clip(halves, types[0].min, types[0].max)
        made = operator.golden(a, b)[0].tolist()
        pairs = list(zip(a.tolist(), b.tolist(), strict=True))
        wrong = sum(test_divide.by_definition(operator, *pair) != q for pair, q in zip(pairs, made, strict=True))
        ties = sum(d != 0 and (factor * n / d).denominator == 2 for n, d in pairs)
        name = f"int{a_bits} / uint{b_bits}"
        print(f"{name:34} {cases:8,} results, {wrong} differ from fractions; {ties:,} of them are ties", flush=True)


def main() -> None:
    if sys.argv[1:] == ["--roundings"]:
        roundings()
        return
    cases = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    quotients(cases)
    draw = np.random.default_rng(7)
    for size in (8, 64, 197):
        operator = test_softmax.softmax(Tensor((1, 1, size), Int(8)), step=Fraction(1, 12))
        wrong = apart = worst = total = 0
        for row in rows(draw, -128, 127, -(-cases // (3 * size)), size):
            made = operator.golden(row.reshape(1, 1, 1, -1))[0].reshape(-1).tolist()
            wrong += sum(a != b for a, b in zip(made, test_softmax.by_definition(operator, row.tolist()), strict=True))
            away = [abs(a - b) for a, b in zip(made, integers(real_shares(row.tolist(), Fraction(1, 12))), strict=True)]
            apart, worst, total = apart + sum(map(bool, away)), max(worst, *away), total + size
        report(f"Softmax over {size}", wrong, apart, worst, total)
    for size in (16, 64, 384):
        for centered, weight, bits in ((True, size, 16), (False, size, 16), (False, 1, 16), (True, size, 8)):
            epsilon, finer = (10**6, 0) if bits == 16 else (1 << 17, 6)
            operator = Normalize(Tensor((1, 1, size), Int(bits)), centered, weight, epsilon, finer)
            unit = 2**operator.fraction_bits // STEPS_OF_ONE
            wrong = apart = worst = total = 0
            for row in rows(draw, -(1 << bits - 1), (1 << bits - 1) - 1, -(-cases // (3 * size)), size):
                made = operator.golden(row.reshape(1, 1, 1, -1))[0].reshape(-1).tolist()
                wrong += sum(
                    a != b for a, b in zip(made, test_normalize.by_definition(operator, row.tolist()), strict=True)
                )
                found = [round(Fraction(t, unit)) for t in made]
                away = [
                    abs(a - b) for a, b in zip(found, integers(real_normalization(operator, row.tolist())), strict=True)
                ]
                apart, worst, total = apart + sum(map(bool, away)), max(worst, *away), total + size
            kind = "LayerNormalization" if centered else "RMSNormalization" if weight > 1 else "LpNormalization"
            report(f"{kind} over {size}, int{bits}", wrong, apart, worst, total)


if __name__ == "__main__":
    main()
