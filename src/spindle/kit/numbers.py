"""The numbers of the calculator: fractions while they can be exact, floats after a function that is not; bounded."""

import ast
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, Final, TypeAlias

Number: TypeAlias = Fraction | float

MAX_BITS = 8_192
"""Of a numerator or denominator: some 2,400 digits."""
MAX_FACTORIAL = 800
MAX_ARGUMENTS = 100
_MAX_EXPONENT_DIGITS = 4
_SIGNIFICANT = 15
_SIGNIFICANT_IF_EXACT = 60


@dataclass(frozen=True, slots=True)
class Function:
    """What a name does, and how many values it takes."""

    call: Callable[..., Any]
    takes: tuple[int, int] = (1, 1)


def literal(text: str) -> Number:
    """Read a number as it is written, digit by digit.

    Raises:
        ValueError: It is none, or too large.
    """
    mantissa, _, exponent = text.replace("_", "").lower().partition("e")
    if len(exponent.lstrip("+-0")) > _MAX_EXPONENT_DIGITS or not mantissa:
        raise ValueError("a number in it is too large, or is none")
    try:
        return _bounded(Fraction(f"{mantissa}e{exponent or '0'}"))
    except ValueError:
        raise ValueError(f"{text[:40]!r} is no number") from None


def checked(function: Callable[..., Any], *values: Number) -> Number:
    """Apply `function`, and see that the result is a number of bearable size.

    Raises:
        ValueError: It is not.
    """
    try:
        result: Any = function(*values)
    except ZeroDivisionError:
        raise ValueError("it divides by zero") from None
    except OverflowError:
        raise ValueError("a number in it gets too large") from None
    except (ValueError, TypeError) as error:
        raise ValueError(f"it has no value ({error})") from None
    if isinstance(result, float):
        if not math.isfinite(result):
            raise ValueError("a number in it gets too large")
        return result
    return _bounded(Fraction(result))


def shown(value: Number) -> str:
    """Write a number down: whole numbers exactly, decimals that end to sixty digits, others to fifteen."""
    if isinstance(value, float):
        return _decimal(Decimal(value))
    if value.denominator == 1:
        return str(value.numerator)
    rest = value.denominator
    for factor in (2, 5):
        while rest % factor == 0:
            rest //= factor
    digits = _SIGNIFICANT if rest != 1 else _SIGNIFICANT_IF_EXACT
    quotient = Context(prec=digits).divide(Decimal(value.numerator), Decimal(value.denominator))
    return _decimal(quotient, digits)


def _decimal(value: Decimal, digits: int = _SIGNIFICANT) -> str:
    rounded = Context(prec=digits).normalize(value)
    return f"{rounded:f}" if -7 < rounded.adjusted() < 21 else f"{rounded:e}"


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise ValueError(f"a number in it gets too large (more than {MAX_BITS} bits)")
    return value


def _power(base: Number, exponent: Number) -> Any:
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        # Judged before it is worked out: 9 ** 9 ** 9 would take a machine's memory.
        if base not in (0, 1, -1) and (bits - 1) * abs(exponent.numerator) > MAX_BITS:
            raise ValueError(f"a power in it gets too large (more than {MAX_BITS} bits)")
        if base in (1, -1):
            return base if exponent.numerator % 2 else Fraction(1)
        return base**exponent.numerator
    if base < 0 and float(exponent) % 1:
        raise ValueError("a negative number has no real power of that kind")
    return float(base) ** float(exponent)


def _round(value: Number, places: Number = Fraction(0)) -> Any:
    count = _whole(places)
    if abs(count) > 1_000:
        raise ValueError("it rounds to more than 1000 places")
    return round(_exact(value), count)


def _sqrt(value: Number) -> Any:
    if isinstance(value, Fraction) and value >= 0:
        top, bottom = math.isqrt(value.numerator), math.isqrt(value.denominator)
        if top * top == value.numerator and bottom * bottom == value.denominator:
            return Fraction(top, bottom)
    return math.sqrt(value)


def _factorial(value: Number) -> int:
    count = _whole(value)
    if count > MAX_FACTORIAL:
        raise ValueError(f"factorial takes at most {MAX_FACTORIAL}")
    return math.factorial(count)


def _whole(value: Number) -> int:
    exact = _exact(value)
    if exact.denominator != 1:
        raise ValueError("a whole number is needed there")
    return exact.numerator


def _exact(value: Number) -> Fraction:
    return Fraction(value)


def _of_whole(function: Callable[..., int]) -> Callable[..., int]:
    return lambda *values: function(*(_whole(value) for value in values))


OPERATORS: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda left, right: left / right,
    ast.FloorDiv: lambda left, right: left // right,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
CONSTANTS: Final[dict[str, Number]] = {"pi": math.pi, "e": math.e, "tau": math.tau}
FUNCTIONS: Final[dict[str, Function]] = {
    "abs": Function(abs),
    "round": Function(_round, (1, 2)),
    "floor": Function(math.floor),
    "ceil": Function(math.ceil),
    "min": Function(lambda *values: min(values), (1, MAX_ARGUMENTS)),
    "max": Function(lambda *values: max(values), (1, MAX_ARGUMENTS)),
    "sqrt": Function(_sqrt),
    "exp": Function(math.exp),
    "log": Function(math.log, (1, 2)),
    "log2": Function(math.log2),
    "log10": Function(math.log10),
    "sin": Function(math.sin),
    "cos": Function(math.cos),
    "tan": Function(math.tan),
    "asin": Function(math.asin),
    "acos": Function(math.acos),
    "atan": Function(math.atan),
    "atan2": Function(math.atan2, (2, 2)),
    "degrees": Function(math.degrees),
    "radians": Function(math.radians),
    "factorial": Function(_factorial),
    "gcd": Function(_of_whole(math.gcd), (1, MAX_ARGUMENTS)),
    "lcm": Function(_of_whole(math.lcm), (1, MAX_ARGUMENTS)),
    "hypot": Function(math.hypot, (1, MAX_ARGUMENTS)),
}
