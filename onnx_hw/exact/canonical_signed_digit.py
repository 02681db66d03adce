"""Integers in digits with signs: canonical ones in base 2, and digits from −1 to 2 in base 4."""

from __future__ import annotations


def signed_digits(number: int) -> tuple[tuple[int, int], ...]:
    """Write a number as the least number of signed powers of two: ``Σ sign · 2^shift`` over (sign, shift).

    This is the non-adjacent form: of two neighbouring digits at least one is 0 (Reitwiesner, Binary Arithmetic, 1960).
    The pairs come with the most significant first; its sign is the number's.
    """
    digits: list[tuple[int, int]] = []
    shift = 0
    while number:
        if number % 2:
            sign = 2 - number % 4
            digits.append((sign, shift))
            number -= sign
        number //= 2
        shift += 1
    return tuple(digits[::-1])


def digits_in_base_4(number: int) -> tuple[int, ...]:
    """Write a number as ``Σ digit · 4^place``, the least place first, with the digits −1, 0, 1 and 2."""
    digits: list[int] = []
    while number:
        digit = (number + 1) % 4 - 1
        digits.append(digit)
        number = (number - digit) // 4
    return tuple(digits)
