"""Questions to a table as SQL: structure from us, values bound as parameters. No I/O, and no engine."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from spindle.artifacts.pattern import compile_pattern
from spindle.errors import ArtifactQueryError

Operator: TypeAlias = Literal[
    "eq", "ne", "lt", "le", "gt", "ge", "contains", "starts_with", "ends_with", "matches", "is_null", "not_null"
]
Comparable: TypeAlias = str | int | float | bool
CellValue: TypeAlias = Comparable | None

OPERATORS: Final[tuple[Operator, ...]] = get_args(Operator)

_COMPARISONS = {"eq": "=", "ne": "IS DISTINCT FROM", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_FUNCTIONS = {
    "contains": "contains",
    "starts_with": "starts_with",
    "ends_with": "ends_with",
    # The engine's patterns are RE2 as well, so they take linear time.
    "matches": "regexp_matches",
}
_INTEGERS = frozenset({
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT",
})  # fmt: skip
_TIMES = frozenset({"DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_NS", "TIMESTAMP_MS"})


class Column(NamedTuple):
    """A column's name and the engine's name of its type."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Statement:
    """What follows the table in a query, and what stands before it; `?` are bound in order."""

    select: str = "*"
    tail: str = ""
    values: tuple[Any, ...] = ()


def rows(columns: Sequence[str] | None, known: Sequence[Column], start: int, end: int | None) -> Statement:
    """Ask for a range of rows, of all columns or of some."""
    chosen = "*" if columns is None else ", ".join(quoted(find(name, known).name) for name in columns)
    if not chosen:
        raise ArtifactQueryError("select needs at least one column", field="columns")
    return Statement(chosen, *_range(start, end))


def filtered(column: str, op: str, value: CellValue, known: Sequence[Column], limit: int | None) -> Statement:
    """Ask for the rows whose cell stands in a relation to a value."""
    condition, values = _condition(find(column, known), op, value)
    tail, more = _range(0, limit)
    return Statement("*", f"WHERE {condition} {tail}", (*values, *more))


def sorted_by(column: str, known: Sequence[Column], limit: int | None, *, descending: bool) -> Statement:
    """Ask for rows in the order of a column; empty cells come last."""
    tail, values = _range(0, limit)
    direction = "DESC" if descending else "ASC"
    return Statement("*", f"ORDER BY {quoted(find(column, known).name)} {direction} NULLS LAST {tail}", values)


def group_counts(column: str, known: Sequence[Column], limit: int | None) -> Statement:
    """Ask how often each value of a column occurs, most frequent first."""
    name = quoted(find(column, known).name)
    tail, values = _range(0, limit)
    return Statement(
        f'{name} AS "value", count(*) AS "count"',
        f"GROUP BY {name} ORDER BY count(*) DESC, CAST({name} AS VARCHAR) ASC NULLS LAST {tail}",
        values,
    )


def find(name: str, known: Sequence[Column]) -> Column:
    """Find a column by its exact name.

    Raises:
        ArtifactQueryError: There is none.
    """
    found = next((column for column in known if column.name == name), None)
    if found is None:
        names = [column.name for column in known]
        near = get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names[:50])}"
        raise ArtifactQueryError(f"no column is called {name!r}; {hint}", field="column")
    return found


def quoted(name: str) -> str:
    """Write a column's name so that it can be nothing else."""
    return '"' + name.replace('"', '""') + '"'


def _range(start: int, end: int | None) -> tuple[str, tuple[int, ...]]:
    start = max(start, 0)
    if end is None:
        return ("OFFSET ?", (start,)) if start else ("", ())
    return "LIMIT ? OFFSET ?", (max(end - start, 0), start)


def _condition(column: Column, op: str, value: CellValue) -> tuple[str, tuple[Any, ...]]:
    name = quoted(column.name)
    if op == "is_null" or (op == "eq" and value is None):
        return f"{name} IS NULL", ()
    if op == "not_null" or (op == "ne" and value is None):
        return f"{name} IS NOT NULL", ()
    if value is None:
        raise ArtifactQueryError(f"{op} needs a value to compare with", field="value")
    if op in _FUNCTIONS:
        if op == "matches":
            compile_pattern(str(value))  # refuses what the engine would stumble over
        return f"{_FUNCTIONS[op]}({_as_text(column)}, ?)", (str(value),)
    if op not in _COMPARISONS:
        raise ArtifactQueryError(f"op is one of {', '.join(OPERATORS)}, not {op!r}", field="op")
    cell, placeholder, fitting = _comparable(column, value)
    return f"{cell} {_COMPARISONS[op]} {placeholder}", (fitting,)


def _comparable(column: Column, value: Comparable) -> tuple[str, str, Any]:
    """Bring a cell and a value to one type; a text that holds numbers is compared as numbers with a number."""
    name, kind = quoted(column.name), column.type
    if kind in _INTEGERS or kind in ("DOUBLE", "FLOAT") or kind.startswith("DECIMAL"):
        return name, "?", _number(value, column)
    if kind == "BOOLEAN":
        return name, "?", _boolean(value, column)
    if kind in _TIMES:
        return name, f"CAST(? AS {kind})", str(value)
    if isinstance(value, bool):
        return f"lower({_as_text(column)})", "?", str(value).lower()
    if isinstance(value, str):
        return _as_text(column), "?", value
    return f"TRY_CAST({_as_text(column)} AS DOUBLE)", "?", value


def _as_text(column: Column) -> str:
    name = quoted(column.name)
    return f"({name} ->> '$')" if column.type == "JSON" else f"CAST({name} AS VARCHAR)"


def _number(value: Comparable, column: Column) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    try:
        return int(str(value))
    except ValueError:
        pass
    try:
        return float(str(value))
    except ValueError as error:
        raise _misfit(column, value, "a number") from error


def _boolean(value: Comparable, column: Column) -> bool:
    if isinstance(value, bool):
        return value
    said = {"true": True, "false": False}.get(str(value).lower())
    if said is None:
        raise _misfit(column, value, "true or false")
    return said


def _misfit(column: Column, value: object, expected: str) -> ArtifactQueryError:
    return ArtifactQueryError(
        f"column {column.name!r} is a {column.type}; compare it with {expected}, not {value!r:.80}", field="value"
    )
