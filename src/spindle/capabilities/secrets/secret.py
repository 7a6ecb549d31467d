"""Secrets: the masked value, the check of declared names, and the redactor that masks secrets in output."""

from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from typing import Any, Final, NoReturn, Protocol, cast, final

from typing_extensions import override

from spindle.capabilities.secrets.encodings import build_patterns, map_leaves

MASK: Final = "***"
MAX_SECRET_CHARS: Final = 8192
"""Longer values are rejected, because matching all their encodings would cost too much."""

_PATTERN_BYTES = 128 << 20


@final
class Secret:
    """A secret text that only `reveal()` returns; `str`, `repr` and formatting return a mask.

    It is equal only to itself, so that comparisons reveal nothing; it cannot be pickled or serialized as JSON.
    """

    __slots__ = ("_text", "name")

    name: str
    """The name under which it was requested."""

    def __init__(self, text: str, *, name: str = "") -> None:
        object.__setattr__(self, "_text", text)
        object.__setattr__(self, "name", name)

    def reveal(self) -> str:
        """Return the text itself; pass it on directly and do not store it."""
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
        raise AttributeError("a Secret is immutable")

    @override
    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("a Secret is immutable")

    def __copy__(self) -> "Secret":
        return self

    def __deepcopy__(self, memo: object) -> "Secret":
        return self

    @override
    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Secret cannot be pickled: pass its name, and get the secret where it is needed")

    @override
    def __getstate__(self) -> NoReturn:
        raise TypeError("a Secret does not expose its state")


def may_read(declared: Iterable[str], name: object) -> bool:
    """Return True if a tool that declared these names may read `name`.

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


class _SecretMatch(Protocol):
    def span(self) -> tuple[int, int]: ...


class _SecretRegex(Protocol):
    def search(self, text: bytes) -> _SecretMatch | None: ...

    def finditer(self, text: bytes) -> Iterator[_SecretMatch]: ...


class Redactor:
    """A redactor that masks its secrets, plain or encoded, in outgoing data.

    It matches each value as it is, as escaped by JSON and Python, percent-encoded, in hex, and in base64 (both
    alphabets, at every alignment). An empty redactor returns its input at once. Thread-safe.
    """

    __slots__ = ("_known", "_lock", "_regexes", "_uncompiled")

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._lock = Lock()
        self._known: set[str] = set()
        self._uncompiled: list[str] = []
        self._regexes: tuple[_SecretRegex, ...] = ()
        for value in values:
            self.add(value)

    def __bool__(self) -> bool:
        """Return True if there is anything to mask."""
        return bool(self._known)

    @override
    def __repr__(self) -> str:
        return f"<Redactor of {len(self._known)} values>"

    def add(self, value: "str | Secret") -> None:
        """Register a value to be masked from now on; blank values are ignored."""
        text = value.reveal() if isinstance(value, Secret) else value
        with self._lock:
            if text.strip() and text not in self._known:
                self._uncompiled.append(text)  # its patterns are compiled when they are first needed
                self._known.add(text)

    def prepare(self) -> None:
        """Compile the patterns of added values now instead of on first use; long values take a while."""
        if not self._uncompiled:
            return
        with self._lock:
            new = [_compile(pattern) for text in self._uncompiled for pattern in build_patterns(text)]
            self._regexes = (*self._regexes, *new)
            self._uncompiled.clear()

    def redact(self, text: str) -> str:
        """Return `text` with every secret masked; the same object if it contains none."""
        if not self._known:
            return text
        data = text.encode("utf-8", "surrogatepass")
        clean = self.redact_bytes(data)
        return text if clean is data else clean.decode("utf-8", "surrogatepass")

    def redact_bytes(self, data: bytes) -> bytes:
        """Return `data`, whose text is expected to be UTF-8, with every secret masked."""
        spans = self._spans(data) if self._known else []
        if not spans:
            return data
        pieces: list[bytes] = []
        place = 0
        for start, end in _merge_spans(spans):
            pieces += data[place:start], MASK.encode()
            place = end
        return b"".join([*pieces, data[place:]])

    def redact_value(self, value: Any) -> Any:
        """Return a JSON value, dataclass or model with every secret masked; the same object if it contains none.

        A number that is a secret becomes a mask, and so does a recursive part or one nested beyond 200 levels.
        """
        return map_leaves(value, self._redact_leaf, MASK) if self._known else value

    def redact_error(self, error: BaseException) -> bool:
        """Mask the secrets in an exception and its causes; return True if no secret is visible any more.

        Some exceptions keep their text where it cannot be changed, such as pydantic's `ValidationError`.
        """
        seen: dict[int, BaseException] = {}
        waiting: list[BaseException | None] = [error] if self._known else []
        while waiting:
            one = waiting.pop()
            if one is None or id(one) in seen:
                continue
            seen[id(one)] = one
            self._redact_exception(one)
            waiting += [one.__cause__, one.__context__]
            if isinstance(one, BaseExceptionGroup):
                waiting += cast("BaseExceptionGroup[BaseException]", one).exceptions
        return not any(self._is_visible_in(one) for one in seen.values())

    def _redact_leaf(self, value: object) -> Any:
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self._redact_buffer(value)
        if isinstance(value, Secret):
            return MASK
        if isinstance(value, BaseException):
            return value if self.redact_error(value) else MASK
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return value if self._is_clean(value) else MASK
        return value

    def _redact_buffer(self, value: Any) -> Any:
        data = bytes(value)
        clean = self.redact_bytes(data)
        return value if clean is data else clean

    def _is_clean(self, number: float) -> bool:
        try:
            text = repr(number)
        except ValueError:  # more digits than Python converts
            return True
        return self.redact(text) is text

    def _is_visible_in(self, error: BaseException) -> bool:
        try:
            told = f"{error}\n{error!r}"
        except Exception:  # noqa: BLE001  an exception that cannot be printed shows nothing
            return False
        return self.redact(told) is not told

    def _redact_exception(self, error: BaseException) -> None:
        args = self.redact_value(error.args)
        if args is not error.args:
            error.args = args
        for name, value in list(vars(error).items()):
            clean = MASK if value is error else self.redact_value(value)
            if clean is not value:
                vars(error)[name] = clean
        if isinstance(error, OSError):  # OSError keeps its visible fields outside `args`
            for name in ("strerror", "filename", "filename2"):
                setattr(error, name, self.redact_value(getattr(error, name)))

    def _spans(self, data: bytes) -> list[tuple[int, int]]:
        self.prepare()
        return [found.span() for regex in self._regexes for found in regex.finditer(data)]


def _merge_spans(spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    spans = sorted(spans)
    start, end = spans[0]
    for one in spans[1:]:
        if one[0] < end:
            end = max(end, one[1])
        else:
            yield start, end
            start, end = one
    yield start, end


def _compile(pattern: bytes) -> _SecretRegex:
    import re2  # noqa: PLC0415 - takes 20 ms, and only programs with secrets need it

    module = cast("Any", re2)
    options = module.Options()
    options.encoding = module.Options.Encoding.LATIN1
    options.log_errors = False
    options.longest_match = True
    options.max_mem = _PATTERN_BYTES
    options.never_capture = True
    try:
        return cast("Callable[[bytes, Any], _SecretRegex]", module.compile)(pattern, options)
    finally:
        module.purge()  # its cache would keep the secrets after the redactor is gone
