"""The records of JSON content: lines are read in blocks. Everything here blocks, so it runs in worker threads."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, TypeAlias

import jiter

from spindle.artifacts.json_stream import JsonDocument, LargeArray, LargeObject, ReadBytes
from spindle.artifacts.readers import BOM, decode_text
from spindle.errors import ArtifactQueryError, InvalidArtifactError
from spindle.json_types import JsonValue, is_array, is_object

Line: TypeAlias = tuple[int, int, bytes]
"""The number of a line, its offset, and its bytes; of a long line only the first block."""

BLOCK_BYTES: Final = 1 << 20
"""A longer record is read in windows of this size."""


def parse_json(text: str) -> JsonValue:
    """Parse one strict JSON value; integers keep every digit, and the last of duplicate keys wins.

    Raises:
        ValueError: The text is not strict JSON; NaN and infinities are rejected.
    """
    try:
        return jiter.from_json(text.encode(), allow_inf_nan=False, cache_mode="keys")
    except UnicodeEncodeError as error:
        raise ValueError("a lone surrogate is not valid text") from error


def parse_record(text: str, line: int) -> JsonValue:
    """Parse one line of JSON Lines.

    Raises:
        InvalidArtifactError: The line, numbered from 0 as in `cat`, is not strict JSON.
    """
    try:
        return parse_json(text)
    except ValueError as error:
        raise InvalidArtifactError(f"line {line} is not a JSON record: {error}") from error


class JsonLines:
    """Records by line; blank lines are none."""

    def __init__(self, read: ReadBytes, byte_length: int) -> None:
        self._read, self._byte_length = read, byte_length

    def lines(self) -> Iterator[Line]:
        """Yield the number, offset and bytes of each line that is not blank."""
        place = len(BOM) if self._read(0, len(BOM)) == BOM else 0
        number = 0
        while place < self._byte_length:
            block = self._read(place, min(place + BLOCK_BYTES, self._byte_length))
            end = len(block) if place + len(block) >= self._byte_length else block.rfind(b"\n") + 1
            if end == 0:
                yield number, place, block
                place = self._find_newline(place + len(block)) + 1
                number += 1
                continue
            offset = place
            for line in block[:end].split(b"\n"):
                if line.startswith((b"{", b"[")) or not _is_blank(line):
                    yield number, offset, line
                offset += len(line) + 1
                number += 1
            number -= block.endswith(b"\n", 0, end)  # what follows the last newline is the next block's
            place += end

    def records(self) -> Iterator[object]:
        """Yield the records.

        Raises:
            InvalidArtifactError: A line is not strict JSON.
        """
        parse = jiter.from_json
        for number, offset, line in self.lines():
            try:
                if len(line) < BLOCK_BYTES:
                    record = parse(line, allow_inf_nan=False, cache_mode="keys")
                else:
                    record = self.parse(number, offset, line)
            except ValueError:
                record = self.parse(number, offset, line)
            yield record

    def parse(self, number: int, offset: int, line: bytes) -> object:
        """Parse a line that `lines` yielded; a long one is read in windows.

        Raises:
            InvalidArtifactError: The line is not strict JSON.
        """
        if len(line) < BLOCK_BYTES:
            return parse_record(decode_text(line), number)
        end = self._find_newline(offset + len(line))
        try:
            return JsonDocument(lambda start, stop: self._read(offset + start, offset + stop), end - offset).load()
        except InvalidArtifactError as error:
            raise InvalidArtifactError(f"line {number} is not a JSON record: {error}") from error

    def count(self) -> int:
        """Count the records without parsing them."""
        return sum(1 for _ in self.lines())

    def _find_newline(self, place: int) -> int:
        while place < self._byte_length:
            block = self._read(place, min(place + BLOCK_BYTES, self._byte_length))
            found = block.find(b"\n")
            if found >= 0:
                return place + found
            place += len(block)
        return self._byte_length


def _is_blank(line: bytes) -> bool:
    stripped = line.strip()
    # Other white space of Unicode begins with a byte over 127.
    return not stripped or (stripped[0] > 127 and not decode_text(stripped).strip())


def take_sample(lines: JsonLines) -> list[Line]:
    """Return the first lines, at least two and about one block, but nothing after a long one."""
    sample: list[Line] = []
    taken = 0
    for line in lines.lines():
        sample.append(line)
        taken += len(line[2])
        if taken >= BLOCK_BYTES and (len(sample) > 1 or len(line[2]) >= BLOCK_BYTES):
            break
    return sample


def slice_records(records: object, start: int | None, end: int | None) -> list[object] | None:
    """Return the records from `start` to `end`, as in a list slice; `None` for another document than an array."""
    cut = slice(start, end)
    if isinstance(records, JsonLines):
        if (start or 0) < 0 or (end or 0) < 0:
            cut = slice(*cut.indices(records.count()))
        return [records.parse(*line) for line in islice(records.lines(), cut.start, cut.stop)]
    if isinstance(records, LargeArray):
        return list(records.slice(cut))
    return records[cut] if is_array(records) else None


def count_records(records: object) -> int:
    """Count the lines, or the items of an array; any other document counts as 1."""
    if isinstance(records, JsonLines):
        return records.count()
    return len(records) if isinstance(records, LargeArray) or is_array(records) else 1


def collect_keys(records: object, limit: int | None) -> list[str] | None:
    """Return the keys of an object, or of all records that are objects; `None` without objects."""
    if is_object(records) or isinstance(records, LargeObject):
        return list(islice(dict.fromkeys(_names(records)), limit))
    seen: dict[str, None] = {}
    for record in _iterate(records):
        seen.update(dict.fromkeys(_names(record)))
        if limit is not None and len(seen) >= limit:
            break
    return list(seen)[:limit] or None


def _iterate(records: object) -> Iterable[object]:
    if isinstance(records, JsonLines):
        return records.records()
    return records if isinstance(records, LargeArray) or is_array(records) else ()


def _names(record: object) -> Iterable[str]:
    if isinstance(record, LargeObject):
        return (name for name, _ in record.items())
    return record if is_object(record) else ()


class JsonContent:
    """The bytes that a query reads in its thread."""

    def __init__(self, read: ReadBytes, byte_length: int, check: Callable[[], None] | None = None) -> None:
        self._read, self.byte_length, self._check = read, byte_length, check
        self.is_closed = False

    @classmethod
    def of_bytes(cls, data: bytes) -> "JsonContent":
        """Return content in memory."""
        return cls(lambda start, end: data[start:end], len(data))

    def read(self, start: int, end: int) -> bytes:
        """Return bytes `start` to `end`, unless the query was cancelled or exceeds a limit."""
        self.check()
        return self._read(start, end)

    def decode_all(self) -> str:
        """Return the whole text."""
        return decode_text(self.read(0, self.byte_length), at_start=True)

    def check(self) -> None:
        """Raise an error if the query was cancelled or exceeds a limit."""
        if self.is_closed:
            raise ArtifactQueryError("the query was cancelled")
        if self._check:
            self._check()

    def guarded_by(self, check: Callable[[], None]) -> "JsonContent":
        """Return the same content, with a check before each read."""
        return JsonContent(self._read, self.byte_length, check)


def load_value(value: object, max_bytes: int) -> JsonValue:
    """Return a value with its large containers read into memory.

    Raises:
        InvalidArtifactError: It has more than `max_bytes` bytes.
    """
    if isinstance(value, LargeArray | LargeObject) and value.byte_length > max_bytes:
        raise InvalidArtifactError(
            f"this value has {value.byte_length} bytes, and at most {max_bytes} are read at once; "
            "ask for a part of it with a path"
        )
    if isinstance(value, LargeArray):
        return load_items(value, max_bytes)
    if isinstance(value, LargeObject):
        return {name: load_value(member, max_bytes) for name, member in value.items()}
    return value


def load_items(values: Iterable[object], max_bytes: int) -> list[JsonValue]:
    """Return a list of values, each as from `load_value`."""
    return [load_value(value, max_bytes) for value in values]


def load_beginning(value: object, max_chars: int) -> JsonValue:
    """Return a value without what follows its first `max_chars` characters: the beginning of its text is the same."""
    return _Beginning(max_chars).take(value)


class _Beginning:
    def __init__(self, max_chars: int) -> None:
        self._left = max_chars

    def take(self, value: object) -> JsonValue:
        if isinstance(value, str):
            value = value[: self._left + 1]
            self._left -= len(value)
        elif is_array(value) or isinstance(value, LargeArray):
            return self._take_items(value)
        elif is_object(value) or isinstance(value, LargeObject):
            return self._take_members(value.items())
        self._left -= 1
        return value

    def _take_items(self, items: Iterable[object]) -> list[JsonValue]:
        taken: list[JsonValue] = []
        self._left -= 1
        for item in items:
            taken.append(self.take(item))
            if self._left < 0:
                break
        return taken

    def _take_members(self, members: Iterable[tuple[str, object]]) -> dict[str, JsonValue]:
        taken: dict[str, JsonValue] = {}
        self._left -= 1
        for name, member in members:
            self._left -= len(name)
            taken[name] = self.take(member)
            if self._left < 0:
                break
        return taken
