"""Records in structured results, and the words by which a user can name one."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from spindle.json_types import JsonObject, JsonValue, is_array, is_list_or_tuple, is_mapping, is_object
from spindle.trust.flow.naming import is_named
from spindle.trust.flow.roles import Produces
from spindle.trust.flow.text_index import Searchable
from spindle.trust.flow.tokens import WORD, fold, normalize

MAX_FOUND: Final = 2_000
"""Of one result."""
MAX_KEPT: Final = 20_000
"""Of one kind in a session."""
_MAX_NAME_CHARS: Final = 200
_MAX_ID_CHARS: Final = 1_000
_MIN_NAME_CHARS: Final = 3
_MAX_NAMES: Final = 8
_MAX_VISITED: Final = 20_000
_MAX_COMPARED: Final = 200


class FoundRecord(NamedTuple):
    """A record of a result: its id, and the texts in it by which a user may name it."""

    id: str
    names: tuple[str, ...] = ()
    is_outermost: bool = True
    """Whether no record that was found lies further out."""


class FoundRecords(NamedTuple):
    """The records of a result, and whether these are all."""

    records: list[FoundRecord]
    is_complete: bool


class RecordBook:
    """What a session knows about the records of one kind.

    Once there are too many to know them all, names count no longer: another record may have the same.
    """

    def __init__(self) -> None:
        self._made: set[str] = set()
        self._names: dict[str, set[str]] = {}
        """The names of each id, as they were written."""
        self._ids: dict[str, set[str]] = {}
        """The ids of each name."""
        self._by_word: dict[str, set[str]] = {}
        """The names with each word."""
        self._is_full = False

    def add(self, found: FoundRecords, *, is_made: bool) -> None:
        """Add the records of a result; `is_made` if the call has made those that lie outermost and are new."""
        self._is_full |= not found.is_complete
        for record in found.records:
            is_known = record.id in self._names
            if not is_known and len(self._names) >= MAX_KEPT:
                self._is_full = True
                return
            names = self._names.setdefault(record.id, set())
            if is_made and record.is_outermost and not is_known:
                self._made.add(record.id)
            for name in record.names:
                self._add_name(record.id, name, names)

    def _add_name(self, id: str, name: str, names: set[str]) -> None:
        key = _to_name_key(name)
        if len(names) < _MAX_NAMES:
            names.add(normalize(name))
        self._ids.setdefault(key, set()).add(id)
        for word in WORD.findall(key):
            self._by_word.setdefault(word, set()).add(key)

    def has_made(self, id: str) -> bool:
        """Return whether a call of this session has made the record."""
        return id in self._made

    def find_named(self, id: str, kind: str, user: Searchable) -> str | None:
        """Return the name by which the user named a record in full, if no other record can be meant."""
        if self._is_full:
            return None
        for name in self._names.get(id, ()):
            key = _to_name_key(name)
            if len(self._ids[key]) == 1 and _is_said(user, name, kind) and not self._is_part_of_said(key, user):
                return name
        return None

    def _is_part_of_said(self, key: str, user: Searchable) -> bool:
        """Return whether the user said the longer name of another record, in which this name stands."""
        groups = [self._by_word.get(word, set[str]()) for word in WORD.findall(key)]
        longer = min(groups, key=len) if groups else set[str]()
        if len(longer) > _MAX_COMPARED:
            return True
        return any(key != each and key in each and user.find(each) is not None for each in longer)

    def save(self) -> JsonObject:
        """Return what is known as JSON."""
        names = {key: sorted(names) for key, names in self._names.items()}
        return {"made": sorted(self._made), "names": names, "is_full": self._is_full}

    def restore(self, saved: JsonValue) -> None:
        """Add what another process knew; what cannot be read makes names count no longer."""
        made, names = (saved.get("made"), saved.get("names")) if is_object(saved) else (None, None)
        if not is_array(made) or not is_object(names) or saved.get("is_full") is not False:
            self._is_full = True
        found = [FoundRecord(key, _read_texts(texts)) for key, texts in (names if is_object(names) else {}).items()]
        self.add(FoundRecords(found, is_complete=True), is_made=False)
        self._made.update(islice(_read_texts(made), MAX_KEPT))


def find_records(structured: JsonValue, produces: Produces) -> FoundRecords:
    """Return the records of a structured result, in order."""
    found: list[FoundRecord] = []
    steps, visits = produces.path, _Visits()
    holders = _find_everywhere(structured, steps[0], visits) if len(steps) == 1 else _walk(structured, steps, visits)
    for holder, is_outermost in holders:
        for each in _read_ids(holder, steps[-1]):
            if len(found) >= MAX_FOUND:
                return FoundRecords(found, is_complete=False)
            found.append(FoundRecord(each, _find_names(holder, steps[-1]), is_outermost))
    return FoundRecords(found, is_complete=visits.left > 0)


class _Visits:
    def __init__(self) -> None:
        self.left = _MAX_VISITED


def _find_everywhere(root: object, name: str, visits: _Visits) -> Iterator[tuple[object, bool]]:
    """Iterate over the objects with a name, level by level, and whether it is the first level that has some."""
    if not is_mapping(root) and not is_list_or_tuple(root):
        yield root, True  # the result itself is an id
        return
    level: list[object] = [root]
    has_found = False
    while level:
        holders = [value for value in level if is_mapping(value) and name in value]
        for holder in holders:
            yield holder, not has_found
        has_found = has_found or bool(holders)
        below: list[object] = []
        for value in level:
            parts: Iterable[object] = value.values() if is_mapping(value) else value if is_list_or_tuple(value) else ()
            below.extend(part for part in parts if is_mapping(part) or is_list_or_tuple(part))
        visits.left -= len(below)
        if visits.left <= 0:
            return
        level = below


def _walk(value: object, steps: tuple[str, ...], visits: _Visits) -> Iterator[tuple[object, bool]]:
    visits.left -= 1
    if visits.left <= 0:
        return
    if len(steps) == 1:
        yield value, True
    elif steps[0] == "*":
        parts: Iterable[object] = value.values() if is_mapping(value) else value if is_list_or_tuple(value) else ()
        for part in parts:
            yield from _walk(part, steps[1:], visits)
    elif is_mapping(value) and steps[0] in value:
        yield from _walk(value[steps[0]], steps[1:], visits)


def _read_ids(holder: object, step: str) -> Iterator[str]:
    if step == "*":
        value: object = list(holder.values()) if is_mapping(holder) else holder
    else:
        value = holder.get(step) if is_mapping(holder) else holder
    for each in value if is_list_or_tuple(value) else (value,):
        if isinstance(each, str) and each.strip() and len(each) <= _MAX_ID_CHARS:
            yield each
        elif type(each) is int and abs(each) < 1 << 128:
            yield str(each)


def _find_names(holder: object, id_step: str) -> tuple[str, ...]:
    """Return the short texts of a record besides its id; saying one of them in full names it."""
    if not is_mapping(holder):
        return ()
    texts = (value for key, value in holder.items() if key != id_step and isinstance(value, str))
    return tuple(islice((text.strip() for text in texts if _can_name(text.strip())), _MAX_NAMES))


def _can_name(text: str) -> bool:
    """Return whether a text can name a record: it has letters, and is not a word in small letters such as a state."""
    return (
        _MIN_NAME_CHARS <= len(text) <= _MAX_NAME_CHARS
        and any(map(str.isalpha, text))
        and not (text.isalpha() and text.islower())
    )


def _is_said(user: Searchable, name: str, kind: str) -> bool:
    if name.isalpha() and user.find(name, exact=True) is None:
        return False
    return is_named(user, name, [kind])


def _to_name_key(name: str) -> str:
    return fold(normalize(name))


def _read_texts(given: JsonValue) -> tuple[str, ...]:
    return tuple(each for each in given if isinstance(each, str)) if is_array(given) else ()
