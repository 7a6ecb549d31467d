"""Numbers as they are read and written down."""

import math
import operator
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.kit.calculator import MAX_BITS, apply_checked, format_number, parse_number


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6))
def test_a_decimal_comes_out_as_it_went_in(number: Decimal) -> None:
    text = f"{abs(number):f}"

    assert Decimal(format_number(parse_number(text))) == abs(number)


@given(st.floats(-1e300, 1e300))
def test_a_float_is_shown_to_fifteen_digits(number: float) -> None:
    assert float(format_number(number)) == pytest.approx(number, rel=1e-14)


@pytest.mark.parametrize("text", ["", "e5", "1e123456", "abc", "1e+99999"])
def test_what_is_no_bearable_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_number(text)


def test_a_result_beyond_the_bound_is_refused() -> None:
    largest = Fraction(2 ** (MAX_BITS - 1))

    assert apply_checked(abs, largest) == largest
    with pytest.raises(ValueError, match=r"\w"):
        apply_checked(operator.mul, largest, Fraction(4))
    with pytest.raises(ValueError, match=r"\w"):
        apply_checked(float, math.inf)
