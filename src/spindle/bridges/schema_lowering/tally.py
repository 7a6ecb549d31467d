"""Records the fate of each keyword: any keyword missing from the lowered schema is a loss. Also combines keywords."""

from collections.abc import Callable, Iterable, Mapping

from spindle.bridges.schema_lowering.report import Action, Loss, sort_losses
from spindle.bridges.schema_lowering.source import (
    DEFINITION_KEYWORDS,
    LIST_KEYWORDS,
    MAP_KEYWORDS,
    SINGLE_KEYWORDS,
    Part,
    to_list,
)
from spindle.json_types import JsonObject, JsonValue
from spindle.text import extend_pointer, shorten
from spindle.tools.schema.graph import as_list, as_object

_SHOWN_CHARS = 60


class LossTracker:
    """The losses of one schema; a keyword emitted in two ways counts as the worse one."""

    def __init__(self) -> None:
        self._losses: dict[tuple[str, str], Loss] = {}
        self._kept: dict[str, tuple[str, str]] = {}
        self._why: dict[tuple[str, str], tuple[Action, str, bool]] = {}

    def explain(self, path: str, keyword: str, action: Action, detail: str, *, narrows: bool = False) -> None:
        """Record in advance why a keyword will be missing or changed; counts only if it is."""
        before = self._why.get((path, keyword))
        self._why[path, keyword] = action, detail, narrows or (before is not None and before[2])

    def rewrite(self, path: str, keyword: str, detail: str) -> None:
        """Record a keyword as rewritten, even if another part emits a keyword of the same name."""
        self.explain(path, keyword, "rewritten", detail)
        self.record(path, keyword, "rewritten", detail)

    def record(self, path: str, keyword: str, action: Action, detail: str, *, narrows: bool = False) -> None:
        """Record a loss."""
        known = self._losses.get((path, keyword))
        if known is None or (known.action, action) == ("rewritten", "dropped"):
            self._losses[path, keyword] = Loss(path, keyword, action, detail, narrows or bool(known and known.narrows))

    def compare(self, parts: Iterable[Part], lowered: Mapping[str, JsonValue]) -> None:
        """Compare the written keywords with the lowered schema, and record the losses."""
        listed = list(parts)
        for part in listed:
            for keyword, value in part.written.items():
                if is_emitted(keyword, value, lowered):
                    self._kept[extend_pointer(part.path, keyword)] = part.path, keyword
                else:
                    self._record_explanation(part.path, keyword, lowered)
        known = {keyword for part in listed for keyword in part.written}
        for keyword in lowered:
            if keyword not in known and listed:
                self._record_added(listed, keyword)

    def _record_explanation(self, path: str, keyword: str, lowered: Mapping[str, JsonValue]) -> None:
        if (path, keyword) in self._why:
            action, detail, narrows = self._why[path, keyword]
            self.record(path, keyword, action, detail, narrows=narrows)
        elif keyword in lowered:
            self.record(path, keyword, "rewritten", f"emitted as {_format(lowered[keyword])}")
        else:
            self.record(path, keyword, "dropped", "the dialect does not accept this keyword here")

    def _record_added(self, parts: list[Part], keyword: str) -> None:
        for part in parts:
            if (part.path, keyword) in self._why:
                action, detail, narrows = self._why[part.path, keyword]
                self.record(part.path, keyword, action, detail, narrows=narrows)
                return

    def losses(self) -> tuple[Loss, ...]:
        """Return every loss, sorted by path."""
        return sort_losses(self._losses.values())

    def kept(self) -> tuple[str, ...]:
        """Return the JSON pointers of all keywords that are emitted unchanged everywhere."""
        return tuple(sorted(at for at, place in self._kept.items() if place not in self._losses))


def is_emitted(keyword: str, value: JsonValue, lowered: Mapping[str, JsonValue]) -> bool:
    """Return whether a keyword is in the lowered schema; nested subschemas are compared separately."""
    if keyword not in lowered:
        return False
    emitted = lowered[keyword]
    if keyword == "description":
        return isinstance(emitted, str) and isinstance(value, str) and value in emitted
    if keyword in MAP_KEYWORDS or keyword in DEFINITION_KEYWORDS:
        names, emitted_names = as_object(value), as_object(emitted)
        return names is not None and emitted_names is not None and _find_shown_names(names) <= set(emitted_names)
    wanted, listed = to_list(value), to_list(emitted)
    if keyword in LIST_KEYWORDS or (keyword == "items" and wanted is not None):
        return listed is not None and len(listed) == len(wanted or ())
    if keyword in SINGLE_KEYWORDS and isinstance(value, dict):
        return isinstance(emitted, dict)
    return is_same_json(emitted, value)


def _find_shown_names(names: JsonObject) -> set[str]:
    # A property that accepts no value is expressed by omitting it; its own subschema records that.
    return {name for name, schema in names.items() if schema is not False}


def is_same_json(left: JsonValue, right: JsonValue) -> bool:
    """Compare JSON values; `1` is not `true`."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    ours, theirs = as_object(left), as_object(right)
    if ours is not None and theirs is not None:
        return ours.keys() == theirs.keys() and all(is_same_json(value, theirs[key]) for key, value in ours.items())
    here, there = to_list(left), to_list(right)
    if here is not None and there is not None:
        return len(here) == len(there) and all(map(is_same_json, here, there))
    return left == right


def _format(value: JsonValue) -> str:
    return shorten(str(value), _SHOWN_CHARS)


def can_combine(keyword: str) -> bool:
    """Return whether one value can combine the constraints of several."""
    return keyword in _COMBINATIONS


def combine_values(keyword: str, values: list[JsonValue]) -> JsonValue:
    """Return one value that combines all constraints, or the first value if that is not possible."""
    if len(values) == 1:
        return values[0]
    combine = _COMBINATIONS.get(keyword)
    return values[0] if combine is None else combine(values)


def to_type_list(value: JsonValue) -> list[str]:
    """Return `type` as a list."""
    return [value] if isinstance(value, str) else [str(each) for each in as_list(value)]


def intersect_types(left: list[str], right: list[str]) -> list[str]:
    """Return the types in both lists; an integer is also a number."""
    both = [each for each in left if each in right or (each == "integer" and "number" in right)]
    return both + [each for each in right if each == "integer" and "number" in left and each not in both]


def _types(values: list[JsonValue]) -> JsonValue:
    left = to_type_list(values[0])
    for value in values[1:]:
        left = intersect_types(left, to_type_list(value)) or left
    return left[0] if len(left) == 1 else left


def _enums(values: list[JsonValue]) -> list[JsonValue]:
    left = as_list(values[0])
    for value in values[1:]:
        left = [each for each in left if any(is_same_json(each, other) for other in as_list(value))] or left
    return left


def _names(values: list[JsonValue]) -> list[JsonValue]:
    return list(dict.fromkeys(name for value in values for name in as_list(value)))


def _texts(values: list[JsonValue]) -> JsonValue:
    texts = list(dict.fromkeys(value for value in values if isinstance(value, str) and value))
    inner = [text for text in texts if not any(text != other and text in other for other in texts)]
    return " ".join(inner) if inner else values[0]


_COMBINATIONS: Mapping[str, Callable[[list[JsonValue]], JsonValue]] = {
    "type": _types,
    "enum": _enums,
    "required": _names,
    "description": _texts,
    "uniqueItems": any,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}
