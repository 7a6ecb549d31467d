"""JSON with comments: parse it, and insert, replace or remove one member of an object without touching the rest."""

import json
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from spindle.errors import InvalidConfigError
from spindle.json_types import JsonObject, JsonValue

MAX_DEPTH: Final = 100
_TRIVIA = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")
_REST_OF_LINE = re.compile(r"(?>[ \t]|/\*[^\r\n]*?\*/)*+(?://[^\r\n]*+)?(?=\r?\n)")
"""Without backtracking: a comment must end at its first `*/`."""
_LINE_END = re.compile(r"[ \t]*+(?=\r?\n|\Z)")
_INDENT = re.compile(r"[ \t]*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """One member of an object: where its name starts, its value, and where the comma behind it ends."""

    name: str
    start: int
    value: "JsonNode"
    comma_end: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class JsonNode:
    """A value of the text and where it is."""

    start: int
    end: int
    value: JsonValue
    members: tuple[Member, ...] | None = field(default=None)
    """The members of an object in the order of the text; a name may occur twice, and the last one counts."""

    def find(self, name: str) -> Member | None:
        """Return the member that counts for a name."""
        return next((each for each in reversed(self.members or ()) if each.name == name), None)


def parse(text: str) -> JsonNode:
    """Parse JSON that may have comments and trailing commas.

    Raises:
        InvalidConfigError: The text is invalid, or nested more than `MAX_DEPTH` levels deep.
    """
    scanner = _Scanner(text)
    node = scanner.read(scanner.skip(0), 0)
    if (end := scanner.skip(node.end)) != len(text):
        raise scanner.error(end, "expected the end of the file")
    return node


@dataclass(frozen=True, slots=True)
class _Scanner:
    text: str

    def error(self, at: int, what: str) -> InvalidConfigError:
        starts = [0, *(found.end() for found in re.finditer("\n", self.text))]
        line = bisect_right(starts, at)
        return InvalidConfigError(f"line {line}, column {at - starts[line - 1] + 1}: {what}")

    def skip(self, at: int) -> int:
        found = _TRIVIA.match(self.text, at)
        return at if found is None else found.end()

    def read(self, at: int, depth: int) -> JsonNode:
        if depth > MAX_DEPTH:
            raise self.error(at, f"nested more than {MAX_DEPTH} levels deep")
        match self.text[at : at + 1]:
            case "{":
                return self._read_object(at, depth)
            case "[":
                return self._read_array(at, depth)
            case '"':
                end = self._find_string_end(at)
                return JsonNode(start=at, end=end, value=self._decode(at, end))
            case _:
                found = _SCALAR.match(self.text, at)
                if found is None:
                    raise self.error(at, "expected a value")
                return JsonNode(start=at, end=found.end(), value=self._decode(at, found.end()))

    def _decode(self, start: int, end: int) -> JsonValue:
        try:
            return json.loads(self.text[start:end])
        except ValueError:  # an invalid escape, or an integer of more digits than Python converts
            raise self.error(start, "invalid value") from None

    def _find_string_end(self, at: int) -> int:
        found = _STRING.match(self.text, at)
        if found is None:
            raise self.error(at, "expected a name or a text in double quotes")
        return found.end()

    def _read_object(self, start: int, depth: int) -> JsonNode:
        members: list[Member] = []
        value: JsonObject = {}
        at = self.skip(start + 1)
        while self.text[at : at + 1] != "}":
            if members and members[-1].comma_end is None:
                raise self.error(at, "expected , or }")
            name_end = self._find_string_end(at)
            name = str(self._decode(at, name_end))
            colon = self.skip(name_end)
            if self.text[colon : colon + 1] != ":":
                raise self.error(colon, "expected :")
            node = self.read(self.skip(colon + 1), depth + 1)
            after = self.skip(node.end)
            comma_end = after + 1 if self.text[after : after + 1] == "," else None
            members.append(Member(name=name, start=at, value=node, comma_end=comma_end))
            value[name] = node.value
            at = self.skip(comma_end or after)
        return JsonNode(start=start, end=at + 1, value=value, members=tuple(members))

    def _read_array(self, start: int, depth: int) -> JsonNode:
        items: list[JsonValue] = []
        at, has_comma = self.skip(start + 1), True
        while self.text[at : at + 1] != "]":
            if not has_comma:
                raise self.error(at, "expected , or ]")
            node = self.read(at, depth + 1)
            items.append(node.value)
            at = self.skip(node.end)
            has_comma = self.text[at : at + 1] == ","
            at = self.skip(at + 1) if has_comma else at
        return JsonNode(start=start, end=at + 1, value=items)


def put_member(text: str, path: Sequence[str], name: str, value: JsonValue) -> str:
    """Return the text with a member in the object at `path`; every other character stays as it is.

    Objects of the path that are missing are added. A member of that name is replaced. An empty text becomes a document.

    Raises:
        InvalidConfigError: The text is invalid, or a value on the path is not an object.
    """
    if not text.strip("\ufeff \t\r\n"):
        return text.rstrip(" \t\r\n") + _render(_nest(path, name, value), "", "  ", "\n") + "\n"
    node = parse(text)
    for depth, step in enumerate((*path, name)):
        if node.members is None:
            place = ".".join(path[:depth]) or "the document"
            raise InvalidConfigError(f"{place}: expected an object")
        member = node.find(step)
        if member is None:
            added = value if depth == len(path) else _nest(path[depth + 1 :], name, value)
            return _insert(text, node, step, added)
        node = member.value
        if depth == len(path):
            unit, newline = _find_style(text)
            shown = _render(value, _get_indent(text, member.start), unit, newline)
            return text[: node.start] + shown + text[node.end :]
    raise AssertionError("unreachable")


def remove_member(text: str, path: Sequence[str], name: str) -> str:
    """Return the text without a member of the object at `path`; without such a member, the text itself.

    Raises:
        InvalidConfigError: The text is invalid.
    """
    while True:  # a name may occur twice
        found: JsonNode | None = parse(text)
        for step in path:
            member = None if found is None else found.find(step)
            found = None if member is None else member.value
        members = () if found is None or found.members is None else found.members
        number = next((number for number, each in enumerate(members) if each.name == name), None)
        if number is None:
            return text
        text = _remove(text, members, number)


def _nest(path: Sequence[str], name: str, value: JsonValue) -> JsonValue:
    nested: JsonValue = {name: value}
    for step in reversed(path):
        nested = {step: nested}
    return nested


def _insert(text: str, node: JsonNode, name: str, value: JsonValue) -> str:
    unit, newline = _find_style(text)
    label = json.dumps(name, ensure_ascii=False)
    if not node.members:
        outer = _get_indent(text, node.start)
        member = f"{newline}{outer}{unit}{label}: {_render(value, outer + unit, unit, newline)}"
        if "\n" not in text[node.start : node.end]:
            return text[: node.end - 1] + member + newline + outer + text[node.end - 1 :]
        at = _find_line_end(text, node.start + 1)
        return text[:at] + member + text[at:]
    last = node.members[-1]
    comma = "" if last.comma_end is None else ","
    before = text[: last.value.end] + ("" if comma else ",")
    behind = text[last.value.end :]
    if "\n" not in text[node.start : last.start]:  # an object whose members follow each other on one line
        shown = f" {label}: {json.dumps(value, ensure_ascii=False)}{comma}"
        at = 0 if last.comma_end is None else last.comma_end - last.value.end
        return before + behind[:at] + shown + behind[at:]
    indent = _get_indent(text, last.start)
    shown = f"{newline}{indent}{label}: {_render(value, indent, unit, newline)}{comma}"
    at = _find_line_end(text, last.comma_end or last.value.end) - last.value.end
    return before + behind[:at] + shown + behind[at:]


def _remove(text: str, members: Sequence[Member], number: int) -> str:
    member = members[number]
    start, end = member.start, member.comma_end or member.value.end
    cut = [(start, end)]
    line_start = text.rfind("\n", 0, start) + 1
    line_end = _LINE_END.match(text, end)
    if line_end is not None and not text[line_start:start].strip(" \t"):
        # Nothing else is on its lines: take the line break before it, too.
        first = line_start - 1 if text[line_start - 2 : line_start - 1] != "\r" else line_start - 2
        cut = [(max(first, 0), line_end.end())]
    elif text[start - 1 : start] == " ":
        cut = [(start - 1, end)]
    if member.comma_end is None and number and (comma := members[number - 1].comma_end) is not None:
        cut.append((comma - 1, comma))
    for start, end in cut:
        text = text[:start] + text[end:]
    return text


def _find_line_end(text: str, at: int) -> int:
    """Return the end of the line if only blanks and comments follow on it, else the same position."""
    found = _REST_OF_LINE.match(text, at)
    return at if found is None else found.end()


def _get_indent(text: str, at: int) -> str:
    line_start = text.rfind("\n", 0, at) + 1
    found = _INDENT.match(text, line_start, at)
    return "" if found is None else found[0]


def _find_style(text: str) -> tuple[str, str]:
    """Return the indentation of one level and the line break that the text uses."""
    first = re.search(r"\n([ \t]+)[\"{\[]", text)
    return ("  " if first is None else first[1]), ("\r\n" if "\r\n" in text else "\n")


def _render(value: JsonValue, indent: str, unit: str, newline: str) -> str:
    """Return a value as text whose further lines are indented."""
    lines = json.dumps(value, indent=unit, ensure_ascii=False).split("\n")
    return f"{newline}{indent}".join(lines)
