"""Configuration errors: validation failures as one line each, with file, line and key."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError

from spindle.errors import InvalidConfigError
from spindle.json_types import JsonObject
from spindle.text import did_you_mean

_HEADER = re.compile(r"^\s*\[\[?\s*([^\]]+?)\s*\]\]?")
_KEY = re.compile(r"""^\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")


def line_in_toml(text: str, key: Sequence[str]) -> int | None:
    """Return the 1-based line of a key, or of the nearest enclosing table in the file."""
    best, best_depth, table = None, 0, tuple[str, ...]()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _parts(header[1])
            here = table
        elif (found := _KEY.match(line)) is not None:
            here = (*table, *_parts(found[1]))
        else:
            continue
        depth = _common_prefix_length(here, key)
        if depth > best_depth and (depth == len(key) or depth == len(here)):
            best, best_depth = number, depth
    return best


def line_in_json(text: str, key: Sequence[str]) -> int | None:
    """Return the 1-based line of a key in JSON text, searching for each part after the previous one."""
    at = 0
    for part in key:
        found = re.compile(rf"{re.escape(json.dumps(part, ensure_ascii=False))}\s*:").search(text, at)
        if found is None:
            break
        at = found.end()
    return text.count("\n", 0, at) + 1 if at else None


def _parts(written: str) -> tuple[str, ...]:
    return tuple(part[1:-1] if part[0] in "\"'" else part for part in _PART.findall(written))


def _common_prefix_length(here: Sequence[str], key: Sequence[str]) -> int:
    return next((i for i, (a, b) in enumerate(zip(here, key, strict=False)) if a != b), min(len(here), len(key)))


_PYDANTIC_PARTS = re.compile(r"\[key\]|bool|(tuple|dict)\[.*|function-[a-z]+\[.*|constrained-\w+")
_WORDS = {
    "a valid tuple": "a list in square brackets",
    "a valid string": "text in quotes",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid boolean": "true or false",
    "a valid dictionary": "a table",
}
_UNQUOTED_KEYS = {"env", "headers", "token", "secrets", "token_sha256", "url", "options"}
"""Values under these keys are never quoted in messages: they may be credentials."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFile:
    """The path and text of a configuration file, used to locate problems."""

    path: Path
    text: str

    def problem(self, key: Sequence[str], what: str) -> str:
        """Format one problem as a line with file, line number, key and message."""
        find: Callable[[str, Sequence[str]], int | None] = line_in_json if self.path.suffix == ".json" else line_in_toml
        line = find(self.text, key)
        place = f"{self.path}:{line}" if line else str(self.path)
        return f"{place}: {'.'.join(key)}: {what}" if key else f"{place}: {what}"

    def error(self, key: Sequence[str], what: str) -> InvalidConfigError:
        """Build the error for one problem."""
        line = self.problem(key, what)
        return InvalidConfigError(line, path=str(self.path), field=".".join(key) or None, problems=(line,))


def build_error(problems: Sequence[tuple[tuple[str, ...], str]], source: SourceFile) -> InvalidConfigError:
    """Build one error for all problems of a file."""
    lines = [source.problem(key, what) for key, what in problems]
    field = ".".join(problems[0][0]) or None
    return InvalidConfigError("\n".join(lines), path=str(source.path), field=field, problems=lines)


def explain_validation_error(error: ValidationError, schema: type[BaseModel]) -> list[tuple[tuple[str, ...], str]]:
    """Return each problem of a validation error with its key, without pydantic's wording."""
    found: dict[tuple[str, ...], str] = {}
    for detail in error.errors(include_url=False):
        key = _to_file_key(detail["loc"])
        what = _describe_problem(cast("JsonObject", detail), key, schema)
        found[key] = what if key not in found else _merge_alternatives(found[key], what)
    return list(found.items())


def _merge_alternatives(first: str, second: str) -> str:
    """Merge two messages about one key: pydantic reports each member of a union separately."""
    wanted, _, given = first.partition(", got ")
    other = second.partition(", got ")[0].removeprefix("expected ")
    is_alike = first.startswith("expected ") and second.startswith("expected ") and other not in wanted
    return f"{wanted} or {other}{', got ' if given else ''}{given}" if is_alike else first


def _to_file_key(location: tuple[int | str, ...]) -> tuple[str, ...]:
    """Return the key as written in the file, without the union members and `[key]` parts that pydantic adds."""
    parts = [str(part) for part in location if not isinstance(part, int)]
    return tuple(part for part in parts if not _PYDANTIC_PARTS.fullmatch(part))


def _describe_problem(detail: JsonObject, key: tuple[str, ...], schema: type[BaseModel]) -> str:
    kind, given = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        return f"unknown key{_suggest_key(key, schema)}"
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    if kind == "string_pattern_mismatch":
        expected = _describe_expected(key)
    else:
        reworded = detail["msg"].replace("String should", "Input should be text that should")
        expected = reworded.replace("Input should be", "expected")
        for theirs, ours in _WORDS.items():
            expected = expected.replace(theirs, ours)
    shown = "" if _UNQUOTED_KEYS & set(key) or isinstance(given, dict | list) else f", got {given!r:.60}"
    return f"{expected[:1].lower()}{expected[1:]}{shown}"


_PATTERNS = {
    "modules": "expected package.module:name",
    "turns": "expected package.module:name",
    "url": "expected a URL that starts with http:// or https://",
    "endpoint": "expected a URL that starts with http:// or https://",
    "path": "expected a path that starts with /, such as /mcp",
    "token_sha256": "expected the SHA-256 of the token, 64 hexadecimal digits",
    "token_env": "expected the name of an environment variable",
    "secrets": "expected the names of secrets, not their values",
}


def _describe_expected(key: tuple[str, ...]) -> str:
    is_credential = "options" in key and key[-1] not in {"endpoint", "region"}
    if "env_secrets" in key or "header_secrets" in key or is_credential:
        return _PATTERNS["secrets"]
    return _PATTERNS.get(key[-1] if key else "", "expected a name of letters, digits, '-', '_' and '.'")


def _suggest_key(key: tuple[str, ...], schema: type[BaseModel]) -> str:
    known = _keys_at(key[:-1], schema)
    return "; " + did_you_mean(key[-1], known, f"known keys: {', '.join(known)}")


def _keys_at(table: Sequence[str], schema: type[BaseModel]) -> list[str]:
    """Return the keys that a table may contain."""
    here: Any = schema
    for part in table:
        if isinstance(here, type) and issubclass(here, BaseModel):
            field = next((f for name, f in here.model_fields.items() if part in {name, f.alias}), None)
            here = None if field is None else _find_table(field.annotation)
        else:
            here = get_args(here)[-1] if get_args(here) else None  # a table of tables: any name is allowed
    if isinstance(here, type) and issubclass(here, BaseModel):
        return [field.alias or name for name, field in here.model_fields.items()]
    return []


def _find_table(annotation: Any) -> Any:
    """Return the member of a union that is a table, a table of tables first; any other annotation as it is."""
    if get_origin(annotation) is Annotated:
        return _find_table(get_args(annotation)[0])
    if get_origin(annotation) in {Union, UnionType}:
        members = [_find_table(member) for member in get_args(annotation)]
        tables = [member for member in members if isinstance(member, type) and issubclass(member, BaseModel)]
        return next((member for member in members if get_origin(member) is dict), [*tables, annotation][0])
    return annotation
