"""Add and remove one table of a TOML file; comments, order and formatting of everything else stay as they are."""

import re
import tomllib
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Final, cast

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from spindle.errors import InvalidConfigError
from spindle.json_types import JsonObject, JsonValue, is_object

_HEADER: Final = re.compile(r"\s*\[([^\[\]]+)\]\s*(#.*)?")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


def put_table(text: str, path: Sequence[str], name: str, entry: Mapping[str, JsonValue]) -> str:
    """Return the text with the table `[path.name]`, which replaces one of that name.

    Raises:
        InvalidConfigError: The text is not TOML, or something else than tables is at `path`.
    """
    if get_table(text, path, name) is not None:
        text = remove_table(text, path, name)
    wanted = _load(text)
    _descend(wanted, path)[name] = dict(entry)
    for write in (_insert_lines, _append, _put_with_tomlkit):
        after = write(text, path, name, entry)
        if after is not None and _try_load(after) == wanted and _keeps_lines(text, after, is_whole=write is _append):
            return after
    raise InvalidConfigError(f"[{'.'.join((*path, name))}] cannot be written without changing the rest of the file")


def remove_table(text: str, path: Sequence[str], name: str) -> str:
    """Return the text without the table `[path.name]` and the tables below it.

    Raises:
        InvalidConfigError: The text is not TOML, or the table cannot be removed without changing the rest.
    """
    wanted = _load(text)
    place = _descend(wanted, path)
    if name not in place:
        return text
    del place[name]
    for write in (_cut_lines, _remove_with_tomlkit):
        after = write(text, path, name)
        if after is not None and _is_same(_try_load(after), wanted):
            return after
    raise InvalidConfigError(f"[{'.'.join((*path, name))}] cannot be removed without changing the rest of the file")


def get_table(text: str, path: Sequence[str], name: str) -> JsonObject | None:
    """Return the content of the table `[path.name]`, or `None` without one.

    Raises:
        InvalidConfigError: The text is not TOML.
    """
    found: JsonValue = _load(text)
    for step in (*path, name):
        found = found.get(step) if is_object(found) else None
    return found if is_object(found) else None


def _load(text: str) -> JsonObject:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidConfigError(f"invalid TOML: {error}") from None


def _try_load(text: str) -> JsonObject | None:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_same(found: JsonObject | None, wanted: JsonObject) -> bool:
    # A table that has become empty may disappear.
    return found is not None and _drop_empty(found) == _drop_empty(wanted)


def _drop_empty(value: JsonValue) -> JsonValue:
    if not is_object(value):
        return value
    below = {name: _drop_empty(part) for name, part in value.items()}
    return {name: part for name, part in below.items() if part != {}}


def _descend(content: JsonObject, path: Sequence[str]) -> JsonObject:
    for number, step in enumerate(path):
        below = content.setdefault(step, {})
        if not is_object(below):
            raise InvalidConfigError(f"{'.'.join(path[: number + 1])}: expected a table")
        content = below
    return content


def _put_with_tomlkit(text: str, path: Sequence[str], name: str, entry: Mapping[str, JsonValue]) -> str | None:
    try:
        document = tomlkit.parse(text)
        place = cast("MutableMapping[str, object]", document)
        for step in path:
            if step not in place:
                place[step] = tomlkit.table(is_super_table=True)
            place = cast("MutableMapping[str, object]", place[step])
        place[name] = _build(entry)
        return tomlkit.dumps(document)
    except (TOMLKitError, TypeError, AttributeError, ValueError, KeyError):
        return None


def _insert_lines(text: str, path: Sequence[str], name: str, entry: Mapping[str, JsonValue]) -> str | None:
    """Insert the table behind the last one beside it; comments above the table that follows stay above it."""
    lines = text.splitlines(keepends=True)
    headers = [number for number, line in enumerate(lines) if line.lstrip().startswith("[")]
    beside = [at for at in headers if _read_header(lines[at])[: len(path)] == list(path)]
    if not beside:
        return None
    at = next((each for each in headers if each > beside[-1]), len(lines))
    at -= len(_find_comment_block(lines[beside[-1] : at]))
    while not lines[at - 1].strip():
        at -= 1
    newline = "\r\n" if "\r\n" in text else "\n"
    before = "".join(lines[:at])
    before += "" if before.endswith("\n") else newline
    return before + newline + _render(path, name, entry, newline) + "".join(lines[at:])


def _append(text: str, path: Sequence[str], name: str, entry: Mapping[str, JsonValue]) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text.strip() else newline if text.endswith("\n") else newline * 2
    return text + gap + _render(path, name, entry, newline)


def _render(path: Sequence[str], name: str, entry: Mapping[str, JsonValue], newline: str) -> str:
    header = ".".join(each if _BARE.fullmatch(each) else tomlkit.string(each).as_string() for each in (*path, name))
    body = f"[{header}]\n{tomlkit.dumps(cast('Mapping[str, object]', _build(entry)))}"
    return body.replace("\n", newline)


def _read_header(line: str) -> list[str]:
    header = _HEADER.fullmatch(line.rstrip("\r\n"))
    return [] if header is None else [each.strip().strip("\"'") for each in header[1].split(".")]


def _build(entry: Mapping[str, JsonValue]) -> Table:
    table = tomlkit.table()
    for key, value in entry.items():
        if is_object(value):
            inline = tomlkit.inline_table()
            for name, part in value.items():
                inline.append(name, part)
            table.add(key, inline)
        else:
            table.add(key, value)
    return table


def _remove_with_tomlkit(text: str, path: Sequence[str], name: str) -> str | None:
    try:
        document = tomlkit.parse(text)
        place = cast("MutableMapping[str, object]", document)
        for step in path:
            place = cast("MutableMapping[str, object]", place[step])
        del place[name]
        return tomlkit.dumps(document)
    except (TOMLKitError, TypeError, AttributeError, ValueError, KeyError):
        return None


def _cut_lines(text: str, path: Sequence[str], name: str) -> str | None:
    """Cut the lines from each header of the table to the next header; comments above the next one are kept."""
    wanted = [*path, name]
    kept: list[str] = []
    cut: list[str] = []
    is_ours = False
    for line in [*text.splitlines(keepends=True), "["]:
        if line.lstrip().startswith("["):
            kept += _find_comment_block(cut, is_after_blank=not kept or not kept[-1].strip())
            if line == "[" and cut:
                while kept and not kept[-1].strip():
                    kept.pop()  # the blank lines above the last table
            cut = []
            is_ours = _read_header(line)[: len(wanted)] == wanted
        (cut if is_ours else kept).append(line)
    return "".join(kept[:-1])


def _find_comment_block(lines: Sequence[str], *, is_after_blank: bool = False) -> list[str]:
    """Return the comments at the end of a table, with the blank line that separates them from it; else nothing."""
    block: list[str] = []
    for line in reversed(lines):
        if not line.strip():
            return block if is_after_blank or not block else [line, *block]
        if not line.strip().startswith("#"):
            break
        block.insert(0, line)
    return []


def _keeps_lines(before: str, after: str, *, is_whole: bool) -> bool:
    """Return whether every line of a text is still there, in the same order."""
    if is_whole:
        return after.startswith(before)
    following = iter(after.splitlines())
    return all(any(line == other for other in following) for line in before.splitlines() if line.strip())
