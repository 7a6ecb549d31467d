"""Records in structured results, and the words by which a user can name one."""

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from spindle.json_types import JsonValue, is_list_or_tuple, is_mapping
from spindle.trust.flow.roles import Produces

MAX_RECORDS: Final = 2_000
"""Of one result; ids beyond are not known as references, so a call about one is asked about."""
_MAX_NAME_CHARS: Final = 200
_MIN_NAME_CHARS: Final = 3
_MAX_NAMES: Final = 8
_MAX_VISITED: Final = 20_000


class FoundRecord(NamedTuple):
    """A record of a result: its id, and the texts in it by which a user may name it."""

    id: str
    names: tuple[str, ...]


def find_records(structured: JsonValue, produces: Produces) -> list[FoundRecord]:
    """Return the records of a structured result, in order."""
    found: list[FoundRecord] = []
    steps = produces.path
    holders = _find_everywhere(structured, steps[0]) if len(steps) == 1 else _walk(structured, steps[:-1])
    for holder in holders:
        found.extend(FoundRecord(each, _find_names(holder, steps[-1])) for each in _read_ids(holder, steps[-1]))
        if len(found) >= MAX_RECORDS:
            return found[:MAX_RECORDS]
    return found


def _find_everywhere(root: object, name: str) -> Iterator[object]:
    if not is_mapping(root) and not is_list_or_tuple(root):
        yield root  # the result itself is an id
        return
    waiting, visited = [root], 0
    while waiting and visited < _MAX_VISITED:
        value = waiting.pop()
        visited += 1
        if is_mapping(value):
            if name in value:
                yield value
            waiting.extend(reversed([part for part in value.values() if is_mapping(part) or is_list_or_tuple(part)]))
        elif is_list_or_tuple(value):
            waiting.extend(reversed([part for part in value if is_mapping(part) or is_list_or_tuple(part)]))


def _walk(value: object, steps: tuple[str, ...]) -> Iterator[object]:
    if not steps:
        yield value
    elif steps[0] == "*":
        parts = value.values() if is_mapping(value) else value if is_list_or_tuple(value) else ()
        for part in parts:
            yield from _walk(part, steps[1:])
    elif is_mapping(value) and steps[0] in value:
        yield from _walk(value[steps[0]], steps[1:])


def _read_ids(holder: object, step: str) -> Iterator[str]:
    value = holder.get(step) if is_mapping(holder) else holder
    for each in value if is_list_or_tuple(value) else (value,):
        if isinstance(each, str) and each.strip():
            yield each
        elif type(each) is int:
            yield str(each)


def _find_names(holder: object, id_step: str) -> tuple[str, ...]:
    """Return the short texts of a record besides its id; a user who says one of them in full has named it."""
    if not is_mapping(holder):
        return ()
    texts = (value for key, value in holder.items() if key != id_step and isinstance(value, str))
    return tuple(islice((text.strip() for text in texts if _is_name(text.strip())), _MAX_NAMES))


def _is_name(text: str) -> bool:
    """Return whether a text can name a record; a single word in small letters, such as `open`, may be a state."""
    return _MIN_NAME_CHARS <= len(text) <= _MAX_NAME_CHARS and not (text.isalpha() and text.islower())
