"""A calculator for models: exact where numbers allow it, and nothing but numbers; nothing is ever evaluated as code."""

import ast
import re
from typing import Annotated

from pydantic import Field

from spindle.calls import Err, Ok
from spindle.kit.numbers import CONSTANTS, FUNCTIONS, OPERATORS, Number, checked, literal, shown
from spindle.tools.decorate import tool

MAX_CHARS = 1_000
MAX_DEPTH = 100

_TOKENS = re.compile(
    r"(?: |(?:\d[\d_]*)?\.?\d[\d_]*\.?(?:[eE][+-]?\d+)?(?![\w.])|[A-Za-z]\w*|\*\*|//|[-+*/%(),])*", re.ASCII
)
"""Numbers, names and operators; everything else is turned down before Python's parser sees it."""


@tool(toolset="arithmetic", trusted=True, read_only=True, timeout_seconds=10, max_result_chars=5_000)
async def calculate(expression: Annotated[str, Field(min_length=1, max_length=MAX_CHARS)]) -> Ok | Err:
    """Work out an arithmetic expression, exactly where that is possible: "0.1 + 0.2" gives 0.3.

    Operators: + - * / // (whole division) % (remainder) ** (power) and parentheses. Functions: abs, round, floor,
    ceil, min, max, sqrt, exp, log (natural, or log(x, base)), log2, log10, sin, cos, tan, asin, acos, atan, atan2
    (radians), degrees, radians, factorial, gcd, lcm, hypot. Constants: pi, e, tau.

    Args:
        expression: For example "(1299 * 12) / 0.81", "2 ** 64", "sqrt(2) * sin(pi / 4)" or "round(10 / 3, 2)".
    """
    try:
        return Ok(evaluate(expression))
    except ValueError as error:
        return Err("input_invalid", f"The expression cannot be worked out: {error}", field="expression")


def evaluate(expression: str) -> str:
    """Work out an expression and write its value down.

    Raises:
        ValueError: It is no arithmetic, has no value, or its numbers get too large.
    """
    expression = " ".join(expression.split())
    if len(expression) > MAX_CHARS:
        raise ValueError(f"it is longer than {MAX_CHARS} characters")
    return shown(_value(_parsed(expression), expression, 0))


def _parsed(expression: str) -> ast.expr:
    allowed = _TOKENS.match(expression)
    end = allowed.end() if allowed else 0
    if end < len(expression):
        raise ValueError(f"{_offending(expression[end:])} at character {end + 1}")
    try:
        return ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError("it is not a complete expression, such as '(2 + 3) * 4'") from None


def _offending(rest: str) -> str:
    if rest.startswith("^"):
        return "'^' is not a power here; write '**'"
    return f"{rest[:10]!r} is not arithmetic"


def _value(node: ast.expr, source: str, depth: int) -> Number:
    if depth > MAX_DEPTH:
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
    if isinstance(node, ast.Constant):
        return literal(source[node.col_offset : node.end_col_offset])
    if isinstance(node, ast.Name):
        return _constant(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
        value = _value(node.operand, source, depth + 1)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp):
        return _chained(node, source, depth)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _called(node.func.id, [_value(each, source, depth + 1) for each in node.args])
    raise _not_understood()


def _chained(node: ast.expr, source: str, depth: int) -> Number:
    """Work out `a + b - c …` from left to right: a long sum is not a deep one."""
    pending: list[ast.BinOp] = []
    while isinstance(node, ast.BinOp):
        pending.append(node)
        node = node.left
    value = _value(node, source, depth + 1)
    for step in reversed(pending):
        function = OPERATORS.get(type(step.op))
        if function is None:
            raise _not_understood()
        value = checked(function, value, _value(step.right, source, depth + 1))
    return value


def _not_understood() -> ValueError:
    return ValueError("only numbers, + - * / // % **, parentheses and the listed functions are understood")


def _constant(name: str) -> Number:
    if name in CONSTANTS:
        return CONSTANTS[name]
    if name in FUNCTIONS:
        raise ValueError(f"{name} is a function; write {name}(…)")
    raise ValueError(f"{name[:40]!r} is unknown; the constants are {', '.join(CONSTANTS)}")


def _called(name: str, values: list[Number]) -> Number:
    function = FUNCTIONS.get(name)
    if function is None:
        raise ValueError(f"{name[:40]!r} is unknown; the functions are {', '.join(FUNCTIONS)}")
    least, most = function.takes
    if not least <= len(values) <= most:
        wanted = f"{least}" if least == most else f"{least} to {most}"
        raise ValueError(f"{name} takes {wanted} values, and was given {len(values)}")
    return checked(function.call, *values)
