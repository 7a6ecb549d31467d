"""The calculator: exact, bounded, and never Python."""

import math
import operator
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.kit.calculator import MAX_BITS, MAX_CHARS, apply_checked, evaluate, format_number, parse_number
from tests.kit.calling import Workshop


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("0.1 + 0.2", "0.3"),
        ("1 / 3", "0.333333333333333"),
        ("1/3 + 1/3 + 1/3", "1"),
        ("10 / 2", "5"),
        ("-2 ** 2", "-4"),
        ("-7 // 2", "-4"),
        ("7 % 3", "1"),
        ("2 ** -3", "0.125"),
        ("2 ** 64", "18446744073709551616"),
        ("1_000 * 2", "2000"),
        ("1 +\n 2", "3"),
        (".5 + 5.", "5.5"),
        ("1e3", "1000"),
        ("10 ** -30", "1e-30"),
        ("sqrt(16)", "4"),
        ("sqrt(2) * sin(pi / 4)", "1"),
        ("round(10 / 3, 2)", "3.33"),
        ("factorial(20)", "2432902008176640000"),
        ("log(8, 2) + log10(100) + log2(2)", "6"),
        ("min(3, 1, 2) + max(1, 2) + abs(-1)", "4"),
        ("gcd(12, 18) * lcm(4, 6)", "72"),
        ("floor(-1.5) + ceil(1.2)", "0"),
        ("+".join(["1"] * 400), "400"),
    ],
)
def test_an_expression_has_its_value(expression: str, value: str) -> None:
    assert evaluate(expression) == value


@pytest.mark.parametrize(
    "expression",
    [
        "9**9**9",
        "10**10**10",
        "2**(2**40)",
        "factorial(100000)",
        "factorial(0.5)",
        "1e99999",
        "exp(10000)",
        "1/0",
        "0**-1",
        "log(0)",
        "sqrt(-1)",
        "(-8) ** (1/3)",
        "2^3",
        "",
        " ",
        "((((",
        "-" * 900 + "1",
        "(" * 300 + "1" + ")" * 300,
        "abs(" * 101 + "1" + ")" * 101,
        "__import__('os')",
        "().__class__",
        "(1).real",
        "open",
        "x",
        "x(1)",
        "abs",
        "abs()",
        "abs(1, 2)",
        "abs(x=1)",
        "abs(*[1])",
        "[1]",
        "'a' * 3",
        "1 if 2 else 3",
        "lambda: 1",
        "1j",
        "0x10",
        "True",
        "None",
        "1 < 2",
        "1 and 2",
        "~1",
        "1 << 5",
        "1; 2",
        "a := 1",
        "…",
        "１+１",
        "\x00",
        "1" * (MAX_CHARS + 1),
    ],
)
def test_a_value_that_is_not_arithmetic_or_too_large_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        evaluate(expression)


@given(st.text(max_size=60))
def test_any_text_has_a_value_or_is_refused(text: str) -> None:
    with suppress(ValueError):
        assert evaluate(text)


@given(st.text("0123456789.e+-*/%() ,", max_size=30) | st.text("0123456789+-*/()", max_size=40))
def test_anything_that_looks_like_arithmetic_ends(text: str) -> None:
    with suppress(ValueError):
        assert evaluate(text)


SIGNS = {"+": operator.add, "-": operator.sub, "*": operator.mul}


@given(
    st.integers(-(10**12), 10**12),
    st.lists(st.tuples(st.sampled_from(sorted(SIGNS)), st.integers(0, 10**12)), max_size=10),
)
def test_whole_numbers_are_exact(first: int, steps: list[tuple[str, int]]) -> None:
    expression, value = f"({first})", Fraction(first)
    for sign, number in steps:
        expression, value = f"({expression} {sign} {number})", Fraction(SIGNS[sign](value, number))

    assert evaluate(expression) == str(value)


@pytest.mark.anyio
async def test_the_tool_answers_in_its_own_trusted_words(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)

    result = await workshop.ok("calculate", expression="6 * 7")
    error = await workshop.err("calculate", expression="6 * seven")

    assert (result.value, result.trusted) == ("42", True)
    assert (error.code, error.field) == ("input_invalid", "expression")


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6))
def test_a_decimal_comes_out_as_it_went_in(number: Decimal) -> None:
    text = f"{abs(number):f}"

    assert Decimal(format_number(parse_number(text))) == abs(number)


@given(st.floats(-1e300, 1e300))
def test_a_float_is_shown_to_fifteen_digits(number: float) -> None:
    assert float(format_number(number)) == pytest.approx(number, rel=1e-14)


@pytest.mark.parametrize("text", ["", "e5", "1e123456", "abc", "1e+99999"])
def test_invalid_and_oversized_numbers_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_number(text)


def test_a_result_beyond_the_bound_is_refused() -> None:
    largest = Fraction(2 ** (MAX_BITS - 1))

    assert apply_checked(abs, largest) == largest
    with pytest.raises(ValueError, match=r"\w"):
        apply_checked(operator.mul, largest, Fraction(4))
    with pytest.raises(ValueError, match=r"\w"):
        apply_checked(float, math.inf)
