"""Secrets: a value that does not show itself, which of them a tool may ask for, and masking them in what leaves."""

from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from typing import Any, Final, NoReturn, Protocol, cast, final

from typing_extensions import override

from spindle.capabilities.secrets.encodings import map_leaves, patterns_of

MASK: Final = "***"
MAX_SECRET_CHARS: Final = 8192
"""A longer value is not handed out: looking for all its forms would cost too much."""

_PATTERN_BYTES = 128 << 20


@final
class Secret:
    """A text that shows itself only to `reveal()`: printed, formatted and represented it is a mask.

    It equals itself alone, so that comparing tells nothing; it cannot be pickled or written as JSON.
    """

    __slots__ = ("_text", "name")

    name: str
    """What it was asked for as."""

    def __init__(self, text: str, *, name: str = "") -> None:
        object.__setattr__(self, "_text", text)
        object.__setattr__(self, "name", name)

    def reveal(self) -> str:
        """Give the text itself; hand it to whatever needs it and keep it nowhere."""
        return cast("str", object.__getattribute__(self, "_text"))

    @override
    def __repr__(self) -> str:
        return f"Secret({self.name!r}: {MASK})" if self.name else f"Secret({MASK})"

    @override
    def __str__(self) -> str:
        return MASK

    @override
    def __format__(self, format_spec: str) -> str:
        return format(MASK, format_spec)

    @override
    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a Secret cannot be changed")

    @override
    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("a Secret cannot be changed")

    def __copy__(self) -> "Secret":
        return self

    def __deepcopy__(self, memo: object) -> "Secret":
        return self

    @override
    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Secret cannot be pickled: hand over its name, and ask for it where it is needed")

    @override
    def __getstate__(self) -> NoReturn:
        raise TypeError("a Secret has no state to take out")


def may_read(declared: Iterable[str], name: object) -> bool:
    """Say whether a tool that declared these names may ask for `name`.

    `shop/*` covers every name below `shop/`, at any depth, whose parts are neither empty nor `.` nor `..`.
    """
    if not isinstance(name, str):
        return False
    return any(_covers(entry, name) for entry in declared)


def _covers(entry: str, name: str) -> bool:
    if not entry.endswith("/*"):
        return entry == name
    above, parts = entry[:-2].split("/"), name.split("/")
    is_below = len(parts) > len(above) and parts[: len(above)] == above
    return is_below and not {"", ".", "..", "*"}.intersection(parts)


class _Found(Protocol):
    def span(self) -> tuple[int, int]: ...


class _Regex(Protocol):
    def search(self, text: bytes) -> _Found | None: ...

    def finditer(self, text: bytes) -> Iterator[_Found]: ...


class Redactor:
    """Masks the secrets it was told of, plain or in disguise, in whatever is about to leave.

    It looks for each value as it is, as JSON and Python escape it, percent-encoded, in hex, and in base64 (both
    alphabets, at every alignment). An empty one gives everything back at once. May be used from any thread.
    """

    __slots__ = ("_known", "_lock", "_regexes", "_waiting")

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._lock = Lock()
        self._known: set[str] = set()
        self._waiting: list[str] = []
        self._regexes: tuple[_Regex, ...] = ()
        for value in values:
            self.add(value)

    def __bool__(self) -> bool:
        """Whether there is anything to mask."""
        return bool(self._known)

    @override
    def __repr__(self) -> str:
        return f"<Redactor of {len(self._known)} values>"

    def add(self, value: "str | Secret") -> None:
        """Mask `value` from now on; one of nothing but blanks is no secret."""
        text = value.reveal() if isinstance(value, Secret) else value
        with self._lock:
            if text.strip() and text not in self._known:
                self._waiting.append(text)  # its patterns are made when something is about to leave
                self._known.add(text)

    def prepare(self) -> None:
        """Make the patterns of what was added now, rather than when something leaves; long values take a while."""
        if not self._waiting:
            return
        with self._lock:
            new = [_compiled(pattern) for text in self._waiting for pattern in patterns_of(text)]
            self._regexes = (*self._regexes, *new)
            self._waiting.clear()

    def redact(self, text: str) -> str:
        """Give `text` with every secret masked; the same object when there is none in it."""
        if not self._known:
            return text
        data = text.encode("utf-8", "surrogatepass")
        clean = self.redact_bytes(data)
        return text if clean is data else clean.decode("utf-8", "surrogatepass")

    def redact_bytes(self, data: bytes) -> bytes:
        """Give `data`, which is UTF-8 where it is text, with every secret masked."""
        spans = self._spans(data) if self._known else []
        if not spans:
            return data
        pieces: list[bytes] = []
        place = 0
        for start, end in _merged(spans):
            pieces += data[place:start], MASK.encode()
            place = end
        return b"".join([*pieces, data[place:]])

    def redact_value(self, value: Any) -> Any:
        """Give a JSON value, a dataclass or a model with every secret in it masked; the same object if there is none.

        A number that is a secret becomes a mask, and so does a part that holds itself or is nested beyond 200.
        """
        return map_leaves(value, self._leaf, MASK) if self._known else value

    def redact_error(self, error: BaseException) -> bool:
        """Mask the secrets in an exception and in those it was raised from; gives whether none shows any more.

        Some keep what they show where nobody can change it, a model's `ValidationError` for one.
        """
        seen: dict[int, BaseException] = {}
        waiting: list[BaseException | None] = [error] if self._known else []
        while waiting:
            one = waiting.pop()
            if one is None or id(one) in seen:
                continue
            seen[id(one)] = one
            self._clean(one)
            waiting += [one.__cause__, one.__context__]
            if isinstance(one, BaseExceptionGroup):
                waiting += cast("BaseExceptionGroup[BaseException]", one).exceptions
        return not any(self._shows(one) for one in seen.values())

    def _leaf(self, value: object) -> Any:
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self._clean_buffer(value)
        if isinstance(value, Secret):
            return MASK
        if isinstance(value, BaseException):
            return value if self.redact_error(value) else MASK
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return value if self._is_clean(value) else MASK
        return value

    def _clean_buffer(self, value: Any) -> Any:
        data = bytes(value)
        clean = self.redact_bytes(data)
        return value if clean is data else clean

    def _is_clean(self, number: float) -> bool:
        try:
            text = repr(number)
        except ValueError:  # more digits than Python writes
            return True
        return self.redact(text) is text

    def _shows(self, error: BaseException) -> bool:
        try:
            told = f"{error}\n{error!r}"
        except Exception:  # noqa: BLE001  what cannot be told tells nothing
            return False
        return self.redact(told) is not told

    def _clean(self, error: BaseException) -> None:
        args = self.redact_value(error.args)
        if args is not error.args:
            error.args = args
        for name, value in list(vars(error).items()):
            clean = MASK if value is error else self.redact_value(value)
            if clean is not value:
                vars(error)[name] = clean
        if isinstance(error, OSError):  # these keep what they show beside `args`
            for name in ("strerror", "filename", "filename2"):
                setattr(error, name, self.redact_value(getattr(error, name)))

    def _spans(self, data: bytes) -> list[tuple[int, int]]:
        self.prepare()
        return [found.span() for regex in self._regexes for found in regex.finditer(data)]


def _merged(spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    spans = sorted(spans)
    start, end = spans[0]
    for one in spans[1:]:
        if one[0] < end:
            end = max(end, one[1])
        else:
            yield start, end
            start, end = one
    yield start, end


def _compiled(pattern: bytes) -> _Regex:
    import re2  # noqa: PLC0415 - 20 ms that only a program with secrets should pay

    module = cast("Any", re2)
    options = module.Options()
    options.encoding = module.Options.Encoding.LATIN1
    options.log_errors = False
    options.longest_match = True
    options.max_mem = _PATTERN_BYTES
    options.never_capture = True
    try:
        return cast("Callable[[bytes, Any], _Regex]", module.compile)(pattern, options)
    finally:
        module.purge()  # its cache would keep the secrets beyond their redactor
