import math
import struct
import sys
from collections.abc import Iterator

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from spindle.tools.canonical import format_float, format_integer


@pytest.fixture
def lowest_digit_limit() -> Iterator[None]:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(sys.int_info.str_digits_check_threshold)
    yield
    sys.set_int_max_str_digits(before)


# The sample of RFC 8785, appendix B, and the edges where ECMAScript changes its notation.
@pytest.mark.parametrize(
    ("bits", "text"),
    [
        (0x0000000000000000, "0"),
        (0x8000000000000000, "0"),
        (0x0000000000000001, "5e-324"),
        (0x8000000000000001, "-5e-324"),
        (0x7FEFFFFFFFFFFFFF, "1.7976931348623157e+308"),
        (0xFFEFFFFFFFFFFFFF, "-1.7976931348623157e+308"),
        (0x4340000000000000, "9007199254740992"),
        (0xC340000000000000, "-9007199254740992"),
        (0x4340000000000001, "9007199254740994"),
        (0x4430000000000000, "295147905179352830000"),
        (0x44B52D02C7E14AF5, "9.999999999999997e+22"),
        (0x44B52D02C7E14AF6, "1e+23"),
        (0x44B52D02C7E14AF7, "1.0000000000000001e+23"),
        (0x444B1AE4D6E2EF4E, "999999999999999700000"),
        (0x444B1AE4D6E2EF4F, "999999999999999900000"),
        (0x444B1AE4D6E2EF50, "1e+21"),
        (0x3EB0C6F7A0B5ED8C, "9.999999999999997e-7"),
        (0x3EB0C6F7A0B5ED8D, "0.000001"),
        (0x41B3DE4355555553, "333333333.3333332"),
        (0x41B3DE4355555554, "333333333.33333325"),
        (0x41B3DE4355555555, "333333333.3333333"),
        (0x41B3DE4355555556, "333333333.3333334"),
        (0x41B3DE4355555557, "333333333.33333343"),
        (0xBECBF647612F3696, "-0.0000033333333333333333"),
        (0x43143FF3C1CB0959, "1424953923781206.2"),
    ],
)
def test_floats_are_spelled_as_the_standard_samples_are(bits: int, text: str) -> None:
    (number,) = struct.unpack(">d", bits.to_bytes(8, "big"))
    assert format_float(number) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(1e16)
@example(1e-5)
@example(123456789012345680000.0)
def test_floats_are_spelled_as_the_reference_does_and_read_back_the_same(number: float) -> None:
    text = format_float(number)

    assert text.encode() == rfc8785.dumps(number)
    assert float(text) == number


def test_a_float_subclass_cannot_choose_its_own_spelling() -> None:
    class Loud(float):
        def __repr__(self) -> str:
            return "loud"

    assert format_float(Loud(1.5)) == "1.5"


@pytest.mark.parametrize("digits", [640, 641, 1024, 4300, 4301, 5000, 20_001])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.usefixtures("lowest_digit_limit")
def test_an_integer_keeps_all_its_digits_whatever_python_is_told_to_refuse(digits: int, sign: int) -> None:
    period = "1234567890" * (digits // 10 + 1)
    expected = period[:digits]
    number = 0
    for start in range(0, digits, 500):
        piece = expected[start : start + 500]
        number = number * 10 ** len(piece) + int(piece)

    assert format_integer(sign * number) == ("-" if sign < 0 else "") + expected


@pytest.mark.usefixtures("lowest_digit_limit")
def test_zeros_inside_a_long_integer_survive() -> None:
    for zeros in (1023, 1024, 1025, 4096):
        assert format_integer(10**zeros) == "1" + "0" * zeros
        assert format_integer(10**zeros - 1) == "9" * zeros


@given(st.integers())
def test_an_ordinary_integer_is_its_digits(number: int) -> None:
    assert format_integer(number) == str(number)
    assert format_integer(number * 2**70) == str(number * 2**70)


def test_a_whole_float_and_its_integer_are_one_number() -> None:
    for exponent in range(53):
        assert format_float(math.ldexp(1, exponent)) == format_integer(1 << exponent)
