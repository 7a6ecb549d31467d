"""The tool `calculate`: evaluates arithmetic, exactly where possible, without executing code."""

import ast
import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field

from spindle.calls import Err, Ok
from spindle.text import to_line
from spindle.tools.declaration import tool

Number: TypeAlias = Fraction | float

MAX_BITS = 8_192
"""Size limit of a numerator or denominator: about 2,400 digits."""
MAX_FACTORIAL = 800
MAX_ARGUMENTS = 100
_MAX_EXPONENT_DIGITS = 4
_SIGNIFICANT = 15
_SIGNIFICANT_IF_EXACT = 60


@dataclass(frozen=True, slots=True)
class MathFunction:
    """A function, and the minimum and maximum number of its arguments."""

    call: Callable[..., object]
    arity: tuple[int, int] = (1, 1)


def parse_number(text: str) -> Number:
    """Parse a number exactly.

    Raises:
        ValueError: It is not a number, or too large.
    """
    mantissa, _, exponent = text.replace("_", "").lower().partition("e")
    if len(exponent.lstrip("+-0")) > _MAX_EXPONENT_DIGITS or not mantissa:
        raise ValueError("a number in it is too large or invalid")
    try:
        return _check_size(Fraction(f"{mantissa}e{exponent or '0'}"))
    except ValueError:
        raise ValueError(f"{text[:40]!r} is not a number") from None


def apply_checked(function: Callable[..., object], *values: Number) -> Number:
    """Apply `function` and check the size of its result.

    Raises:
        ValueError: The result is undefined or too large.
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
    return _check_size(Fraction(result))


def format_number(value: Number) -> str:
    """Format a number: integers exactly, terminating decimals with 60 digits, others with 15."""
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


def _check_size(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise ValueError(f"a number in it gets too large (more than {MAX_BITS} bits)")
    return value


def _power(base: Number, exponent: Number) -> object:
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        # Checked before it is computed: 9 ** 9 ** 9 would exhaust the memory.
        if base not in (0, 1, -1) and (bits - 1) * abs(exponent.numerator) > MAX_BITS:
            raise ValueError(f"a power in it gets too large (more than {MAX_BITS} bits)")
        if base in (1, -1):
            return base if exponent.numerator % 2 else Fraction(1)
        return base**exponent.numerator
    if base < 0 and float(exponent) % 1:
        raise ValueError("a negative number has no real power of that kind")
    return float(base) ** float(exponent)


def _round(value: Number, places: Number = Fraction(0)) -> object:
    count = _to_whole(places)
    if abs(count) > 1_000:
        raise ValueError("it rounds to more than 1000 places")
    return round(_exact(value), count)


def _sqrt(value: Number) -> object:
    if isinstance(value, Fraction) and value >= 0:
        top, bottom = math.isqrt(value.numerator), math.isqrt(value.denominator)
        if top * top == value.numerator and bottom * bottom == value.denominator:
            return Fraction(top, bottom)
    return math.sqrt(value)


def _factorial(value: Number) -> int:
    count = _to_whole(value)
    if count > MAX_FACTORIAL:
        raise ValueError(f"factorial takes at most {MAX_FACTORIAL}")
    return math.factorial(count)


def _to_whole(value: Number) -> int:
    exact = _exact(value)
    if exact.denominator != 1:
        raise ValueError("a whole number is needed there")
    return exact.numerator


def _exact(value: Number) -> Fraction:
    return Fraction(value)


def _of_whole(function: Callable[..., int]) -> Callable[..., int]:
    return lambda *values: function(*(_to_whole(value) for value in values))


OPERATORS: Final[dict[type[ast.operator], Callable[[Any, Any], object]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda left, right: left / right,
    ast.FloorDiv: lambda left, right: left // right,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
CONSTANTS: Final[dict[str, Number]] = {"pi": math.pi, "e": math.e, "tau": math.tau}
FUNCTIONS: Final[dict[str, MathFunction]] = {
    "abs": MathFunction(abs),
    "round": MathFunction(_round, (1, 2)),
    "floor": MathFunction(math.floor),
    "ceil": MathFunction(math.ceil),
    "min": MathFunction(lambda *values: min(values), (1, MAX_ARGUMENTS)),
    "max": MathFunction(lambda *values: max(values), (1, MAX_ARGUMENTS)),
    "sqrt": MathFunction(_sqrt),
    "exp": MathFunction(math.exp),
    "log": MathFunction(math.log, (1, 2)),
    "log2": MathFunction(math.log2),
    "log10": MathFunction(math.log10),
    "sin": MathFunction(math.sin),
    "cos": MathFunction(math.cos),
    "tan": MathFunction(math.tan),
    "asin": MathFunction(math.asin),
    "acos": MathFunction(math.acos),
    "atan": MathFunction(math.atan),
    "atan2": MathFunction(math.atan2, (2, 2)),
    "degrees": MathFunction(math.degrees),
    "radians": MathFunction(math.radians),
    "factorial": MathFunction(_factorial),
    "gcd": MathFunction(_of_whole(math.gcd), (1, MAX_ARGUMENTS)),
    "lcm": MathFunction(_of_whole(math.lcm), (1, MAX_ARGUMENTS)),
    "hypot": MathFunction(math.hypot, (1, MAX_ARGUMENTS)),
}


MAX_CHARS = 1_000
MAX_DEPTH = 100

_TOKENS = re.compile(
    r"(?: |(?:\d[\d_]*)?\.?\d[\d_]*\.?(?:[eE][+-]?\d+)?(?![\w.])|[A-Za-z]\w*|\*\*|//|[-+*/%(),])*", re.ASCII
)
"""Numbers, names and operators; everything else is rejected before Python's parser sees it."""


@tool(toolset="arithmetic", trusted=True, read_only=True, timeout_seconds=10, max_result_chars=5_000)
async def calculate(expression: Annotated[str, Field(min_length=1, max_length=MAX_CHARS)]) -> Ok | Err:
    """Evaluate an arithmetic expression, exactly where that is possible: "0.1 + 0.2" is 0.3.

    Operators: + - * / // (whole division) % (remainder) ** (power) and parentheses. Functions: abs, round, floor,
    ceil, min, max, sqrt, exp, log (natural, or log(x, base)), log2, log10, sin, cos, tan, asin, acos, atan, atan2
    (radians), degrees, radians, factorial, gcd, lcm, hypot. Constants: pi, e, tau.

    Args:
        expression: For example "(1299 * 12) / 0.81", "2 ** 64", "sqrt(2) * sin(pi / 4)" or "round(10 / 3, 2)".
    """
    try:
        return Ok(evaluate(expression))
    except ValueError as error:
        return Err("input_invalid", f"The expression cannot be evaluated: {error}", field="expression")


def evaluate(expression: str) -> str:
    """Evaluate an expression and return its formatted value.

    Raises:
        ValueError: It is not arithmetic, is undefined, or its numbers get too large.
    """
    expression = to_line(expression)
    if len(expression) > MAX_CHARS:
        raise ValueError(f"it is longer than {MAX_CHARS} characters")
    return format_number(_evaluate_node(_parse(expression), expression, 0))


def _parse(expression: str) -> ast.expr:
    allowed = _TOKENS.match(expression)
    end = allowed.end() if allowed else 0
    if end < len(expression):
        raise ValueError(f"{_describe_rest(expression[end:])} at character {end + 1}")
    try:
        return ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError("it is not a complete expression, such as '(2 + 3) * 4'") from None


def _describe_rest(rest: str) -> str:
    if rest.startswith("^"):
        return "'^' is not a power here; write '**'"
    return f"{rest[:10]!r} is not arithmetic"


def _evaluate_node(node: ast.expr, source: str, depth: int) -> Number:
    if depth > MAX_DEPTH:
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
    if isinstance(node, ast.Constant):
        return parse_number(source[node.col_offset : node.end_col_offset])
    if isinstance(node, ast.Name):
        return _constant(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
        value = _evaluate_node(node.operand, source, depth + 1)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp):
        return _evaluate_chain(node, source, depth)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _call_function(node.func.id, [_evaluate_node(each, source, depth + 1) for each in node.args])
    raise _not_understood()


def _evaluate_chain(node: ast.expr, source: str, depth: int) -> Number:
    """Evaluate `a + b - c …` from left to right without recursion, so that a long sum is not too deep."""
    pending: list[ast.BinOp] = []
    while isinstance(node, ast.BinOp):
        pending.append(node)
        node = node.left
    value = _evaluate_node(node, source, depth + 1)
    for step in reversed(pending):
        function = OPERATORS.get(type(step.op))
        if function is None:
            raise _not_understood()
        value = apply_checked(function, value, _evaluate_node(step.right, source, depth + 1))
    return value


def _not_understood() -> ValueError:
    return ValueError("only numbers, + - * / // % **, parentheses and the listed functions are understood")


def _constant(name: str) -> Number:
    if name in CONSTANTS:
        return CONSTANTS[name]
    if name in FUNCTIONS:
        raise ValueError(f"{name} is a function; write {name}(…)")
    raise ValueError(f"{name[:40]!r} is unknown; the constants are {', '.join(CONSTANTS)}")


def _call_function(name: str, values: list[Number]) -> Number:
    function = FUNCTIONS.get(name)
    if function is None:
        raise ValueError(f"{name[:40]!r} is unknown; the functions are {', '.join(FUNCTIONS)}")
    least, most = function.arity
    if not least <= len(values) <= most:
        wanted = f"{least}" if least == most else f"{least} to {most}"
        raise ValueError(f"{name} takes {wanted} values, got {len(values)}")
    return apply_checked(function.call, *values)
