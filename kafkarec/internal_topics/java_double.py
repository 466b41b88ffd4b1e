"""Formats a double as Java 17 does: Double.toString, which Jackson uses for the values of client quotas.

Java generates digits until they are nearer to the value than to its neighbours. Up to JDK 18 that loop ends late in
some cases: 2^60 is 1.15292150460684698E18, although 1.152921504606847E18 is sufficient (JDK-4511638). This module
returns those digits, which Kafka on Java 17 prints; from JDK 19 on Java prints the shortest ones, as Python does.

    value = fraction * 2^exponent, fraction of 53 bits; half = half the distance to the next double
    scaled by a power of ten near the value: digit = value div 1; value = 10 * (value mod 1); half = 10 * half;
    stop when value < half, or value + half > 10: then the last digit is rounded up
"""

from __future__ import annotations

import math
import struct

_FRACTION_BITS = 52
_NO_E_FORM = range(-3, 8)  # decimal exponents that are printed without E; others have two digits or more


def to_string(value: float) -> str:
    """The text of Double.toString, also NaN, Infinity and -Infinity."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1, value) < 0 else ""
    if value == 0:
        return f"{sign}0.0"
    digits, point = _digits(abs(value))  # 0.DIGITS * 10^point
    if -3 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    if 0 < point < 8:
        whole, rest = digits[:point].ljust(point, "0"), digits[point:] or "0"
        return f"{sign}{whole}.{rest}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def _digits(value: float) -> tuple[str, int]:
    """(digits, point) of a positive value = 0.DIGITS * 10^point; the last digit is not 0."""
    (bits,) = struct.unpack(">Q", struct.pack(">d", value))
    fraction, exponent = bits & ((1 << _FRACTION_BITS) - 1), bits >> _FRACTION_BITS
    significant = _FRACTION_BITS + 1
    if exponent:
        fraction |= 1 << _FRACTION_BITS
    else:  # below the normal doubles: fewer bits are significant
        significant = fraction.bit_length()
        shift = _FRACTION_BITS + 1 - significant
        fraction, exponent = fraction << shift, 1 - shift
    exponent -= 1023
    if value < 1 << 63 and value == int(value):
        return _whole(int(value), exponent - significant - 1 if exponent > significant else 0)
    return _generate(fraction, exponent, significant)


def _whole(value: int, spare_bits: int) -> tuple[str, int]:
    """As `_digits`, of a whole number below 2^63. Rounds away the last digits, which its spare bits do not
    determine."""
    drop = len(str(1 << spare_bits)) - 1 if spare_bits > 1 else 0
    length = 0
    if drop:
        value, rest = divmod(value, 10**drop)
        value += rest >= 10**drop // 2
        length = drop
    text = str(value)
    return text.rstrip("0"), len(text) + length


def _bits_of_power_of_5(power: int) -> int:
    """The number of bits of 5^power, as Java estimates it."""
    return 0 if power == 0 else (5**power).bit_length() if power < 27 else power * 3


def _wrapped(number: int, width: int) -> int:
    """Wraps around to a signed integer of `width` bits: near 2^63 Java's sums overflow, which its loop depends on."""
    return number if not width else (number + (1 << (width - 1))) % (1 << width) - (1 << (width - 1))


def _generate(fraction: int, exponent: int, significant: int) -> tuple[str, int]:
    """As `_digits`, of any value; the loop of FloatingDecimal.dtoa."""
    scaled = struct.unpack(">d", struct.pack(">Q", 0x3FF << 52 | fraction & ((1 << 52) - 1)))[0]
    power = math.floor((scaled - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981)
    zeros = (fraction & -fraction).bit_length() - 1
    odd, odd_bits = fraction >> zeros, _FRACTION_BITS + 1 - zeros
    tiny = max(0, odd_bits - exponent - 1)
    fives, tens = max(0, -power), max(0, power)
    two_value = fives + tiny + exponent
    two_scale = tens + tiny
    two_half = two_value - significant
    two_value -= odd_bits - 1
    common = min(two_value, two_scale)
    two_value, two_scale, two_half = two_value - common, two_scale - common, two_half - common
    if odd_bits == 1:
        two_half -= 1  # a power of two is nearer to its lower neighbour
    if two_half < 0:
        two_value, two_scale, two_half = two_value - two_half, two_scale - two_half, 0
    bits = max(odd_bits + two_value + _bits_of_power_of_5(fives), two_scale + 1 + _bits_of_power_of_5(tens + 1))
    width = 32 if bits < 32 else 64 if bits < 64 else 0  # Java's int, long, or FDBigInteger
    rest, scale, half = odd * 5**fives << two_value, 5**tens << two_scale, 5**fives << two_half
    ten = 10 * scale

    digits: list[int] = []
    low = high = False
    while not (low or high):
        digit, rest = divmod(rest, scale)
        rest, half = 10 * rest, _wrapped(10 * half, width)
        low = rest < half
        high = _wrapped(rest + half, width) > ten or (not width and rest + half == ten)
        if half <= 0:
            low = high = True
        if digits or digit or high:
            digits.append(digit)
        else:
            power -= 1
        if len(digits) <= 1 and power not in _NO_E_FORM:
            low = high = len(digits) > 1
    if high and (not low or 2 * rest > ten or (2 * rest == ten and digits[-1] % 2)):
        digits[-1] += 1
    number = 0
    for digit in digits:
        number = 10 * number + digit
    text = str(number)
    return text.rstrip("0"), power + 1 + len(text) - len(digits)
