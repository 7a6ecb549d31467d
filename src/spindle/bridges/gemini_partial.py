"""Puts together arguments that come in pieces, each with the path of its place (Vertex AI only)."""

import json
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final, cast

from spindle.bridges.reading import field_of, items_of, text_of

_PATH: Final = re.compile(r"\$(?:\.[^.\[\]]+|\[\d{1,4}\]|\['[^']*'\])+")
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]")
_VALUES: Final = ("stringValue", "numberValue", "boolValue", "nullValue")


class PartialArgs:
    """The arguments of one call, so far."""

    def __init__(self) -> None:
        self.args: dict[str, Any] = {}
        self.is_done = False
        self.is_damaged = False
        """A piece could not be put where it belongs: what is left may look whole and is not."""
        self._growing: str | None = None

    @property
    def text(self) -> str:
        """The arguments as JSON; while more is to come, such that nobody takes them for whole."""
        text = json.dumps(self.args, ensure_ascii=False)
        return text if self.is_done else text[:-1]

    def feed(self, function_call: Mapping[str, Any]) -> None:
        """Take the next pieces."""
        whole = function_call.get("args")
        if isinstance(whole, dict):
            self.args |= cast("dict[str, Any]", whole)
        for piece in items_of(function_call, "partialArgs"):
            self._put(piece)
        if function_call.get("willContinue") is not True:
            self.is_done = True
            self.is_damaged = self.is_damaged or self._growing is not None

    def _put(self, piece: Any) -> None:
        path = text_of(piece, "jsonPath")
        names = [name for name in _VALUES if field_of(piece, name) is not None]
        if not _PATH.fullmatch(path) or len(names) != 1 or (self._growing is not None and self._growing != path):
            self.is_damaged = True
            return
        value = None if names == ["nullValue"] else field_of(piece, names[0])
        if names == ["numberValue"] and isinstance(value, float) and value.is_integer():
            # The wire has numbers of one kind only; a whole one is what the model wrote.
            value = int(value)
        steps = [int(index) if index else name or quoted for name, index, quoted in _STEP.findall(path)]
        try:
            _place(self.args, steps, value, goes_on=self._growing == path)
        except (TypeError, IndexError):
            self.is_damaged = True
        self._growing = path if field_of(piece, "willContinue") is True else None


def _place(args: dict[str, Any], steps: list[str | int], value: Any, *, goes_on: bool) -> None:
    """Put a value where its path says, making what is missing on the way."""
    place: Any = args
    for step, following in pairwise(steps):
        empty: Any = [] if isinstance(following, int) else {}
        place = _inner(place, step, empty)
    before = _inner(place, steps[-1], "" if goes_on else None)
    place[steps[-1]] = before + value if goes_on else value


def _inner(place: Any, step: str | int, empty: Any) -> Any:
    if not isinstance(place, list if isinstance(step, int) else dict):
        raise TypeError("the path does not fit what is there")
    if isinstance(step, str):
        return cast("dict[str, Any]", place).setdefault(step, empty)
    items = cast("list[Any]", place)
    if step == len(items):
        items.append(empty)
    return items[step]
