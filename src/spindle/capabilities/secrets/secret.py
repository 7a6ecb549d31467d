"""Secrets: the masked value, the check of declared names, and the redactor that masks secrets in output."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from threading import Lock
from typing import Any, Final, NoReturn, Protocol, TypeAlias, cast, final

from typing_extensions import Buffer, override

from spindle.capabilities import secrets as parts
from spindle.json_types import is_buffer, map_leaves
from spindle.text import MASK

Span: TypeAlias = tuple[int, int]
"""The first byte of a secret, and the one after its last."""
MAX_SECRET_CHARS: Final = 8192
"""Backends reject longer values; a redactor finds them only as common encoders write them: patterns cost too much."""

_MIN_OVERLAP_BYTES = 64 << 10


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
        text: str = object.__getattribute__(self, "_text")
        return text

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


class Secrets(Protocol):
    """The secrets handle of a call, available to the tool as `ctx.secrets`."""

    async def get(self, name: str) -> Secret:
        """Return the secret called `name`; from now on its value is masked wherever it appears.

        Raises:
            CapabilityError: The tool did not declare the secret.
            SecretError: The secret is not set, is not usable text, or its source failed.
        """
        ...


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


_PATTERN_BYTES: Final = 128 << 20
_PLAIN_BYTES: Final = re.compile(rb"[\t\n\r -~]*")


class _SecretMatch(Protocol):
    def span(self) -> Span: ...


class _SecretRegex(Protocol):
    def finditer(self, text: bytes) -> Iterator[_SecretMatch]: ...


class SecretMatcher:
    """The compiled patterns of some secrets."""

    __slots__ = ("_literals", "_regexes", "max_chars")

    def __init__(self) -> None:
        self._regexes: tuple[_SecretRegex, ...] = ()
        self._literals: tuple[bytes, ...] = ()
        self.max_chars = 0
        """The length of the longest secret."""

    def add(self, values: Iterable[str]) -> None:
        """Compile the patterns of these secrets; a blank one has none."""
        texts = {form for value in values for form in parts.normalize(value)}
        self.max_chars = max([self.max_chars, *map(len, texts)])
        short = [text for text in texts if len(text) <= MAX_SECRET_CHARS]
        long = [text for text in texts if len(text) > MAX_SECRET_CHARS]
        self._regexes = (*self._regexes, *(regex for text in short for regex in _compile_text(text)))
        self._literals = (*self._literals, *(form for text in long for form in parts.build_literals(text)))

    def find(self, data: bytes) -> list[Span]:
        """Return where secrets are, in order and without overlaps."""
        spans = self._find_raw(data)
        if not _PLAIN_BYTES.fullmatch(data):
            spans += self._find_folded(data.decode("utf-8", "surrogateescape"))
        return merge_spans(spans)

    def _find_raw(self, data: bytes) -> list[Span]:
        spans = [found.span() for regex in self._regexes for found in regex.finditer(data)]
        return spans + [span for literal in self._literals for span in _find_literal(literal, data)]

    def _find_folded(self, text: str) -> list[Span]:
        """Find secrets in a text without its invisible characters and with lookalikes as plain letters."""
        folds = {ord(each): fold for each in set(text) if (fold := parts.fold(each)) != each}
        if not folds:
            return []
        found = merge_spans(self._find_raw(text.translate(folds).encode("utf-8", "surrogateescape")))
        return list(parts.unfold(text, folds, found)) if found else []


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order, with overlapping ones joined."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        elif start < end:
            merged.append((start, end))
    return merged


def _find_literal(literal: bytes, data: bytes) -> Iterator[Span]:
    start = data.find(literal)
    while start >= 0:
        yield start, start + len(literal)
        start = data.find(literal, start + len(literal))


@lru_cache(maxsize=64)  # compiling takes long, and a tool with secret arguments needs them again in each call
def _compile_text(text: str) -> tuple[_SecretRegex, ...]:
    return tuple(map(_compile, parts.build_patterns(text)))


def _compile(pattern: bytes) -> _SecretRegex:
    import re2  # noqa: PLC0415 - takes 20 ms, and only programs with secrets need it

    module: Any = re2
    options = module.Options()
    options.encoding = module.Options.Encoding.LATIN1
    options.log_errors = False
    options.longest_match = True
    options.max_mem = _PATTERN_BYTES
    options.never_capture = True
    try:
        return module.compile(pattern, options)
    finally:
        module.purge()  # its cache would keep the secrets after the redactor is gone


def mask_spans(data: bytes, spans: Sequence[Span], mask: bytes) -> bytes:
    """Return the bytes with each span replaced."""
    pieces: list[bytes] = []
    place = 0
    for start, end in spans:
        pieces += data[place:start], mask
        place = end
    return b"".join([*pieces, data[place:]]) if spans else data


class Redactor:
    """A redactor that masks its secrets, plain or encoded, in outgoing data.

    `docs/secrets.md` lists the forms in which it finds a value. An empty redactor returns its input at once.
    Thread-safe.
    """

    __slots__ = ("__weakref__", "_known", "_lock", "_matcher", "_tokens", "_uncompiled", "is_active")

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._lock = Lock()
        self.is_active = False
        """Whether there is anything to mask."""
        self._known: set[str] = set()
        self._tokens: dict[str, tuple[bytes, ...]] = {}
        self._uncompiled: list[str] = []
        self._matcher: SecretMatcher | None = None
        for value in values:
            self.add(value)

    def __bool__(self) -> bool:
        """Return True if there is anything to mask."""
        return bool(self._known)

    @override
    def __repr__(self) -> str:
        return f"<Redactor of {len(self._known)} values>"

    def add(self, value: "str | Secret", *, is_token: bool = False) -> None:
        """Register a value to be masked from now on; blank values are ignored.

        A token is a random value that will be discarded: it is found as common encoders write it, without patterns.
        """
        text = value.reveal() if isinstance(value, Secret) else value
        with self._lock:
            if text.strip() and text not in self._known:
                forms = tuple(parts.build_literals(text)) if is_token else ()
                if forms:
                    self._tokens = {**self._tokens, text: forms}
                else:
                    self._uncompiled.append(text)  # its patterns are compiled when they are first needed
                self._known.add(text)
                self.is_active = True

    def discard(self, token: str) -> None:
        """Mask a token no longer."""
        with self._lock:
            if token in self._tokens:
                self._tokens = {each: forms for each, forms in self._tokens.items() if each != token}
                self._known.remove(token)

    def prepare(self) -> None:
        """Compile the patterns of added values now instead of on first use; long values take a while."""
        if not self._uncompiled:
            return
        with self._lock:
            if self._matcher is None:
                self._matcher = SecretMatcher()
            self._matcher.add(self._uncompiled)
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
        return mask_spans(data, spans, MASK.encode()) if spans else data

    def mask_stream(self) -> "parts.MaskedStream":
        """Return a filter for a stream of bytes; it also finds secrets that are split between two pieces."""
        longest = max(map(len, self._known), default=0)
        # An encoded character takes at most about 20 bytes; more only by padding without end.
        return parts.MaskedStream(self._spans, MASK.encode(), overlap_bytes=max(_MIN_OVERLAP_BYTES, 24 * longest))

    def redact_value(self, value: Any) -> Any:
        """Return a JSON value, dataclass or model with every secret masked; the same object if it contains none.

        A number that is a secret becomes a mask, and so does a recursive part or one nested beyond 200 levels.
        """
        if not self._known:
            return value
        # One search of all texts together is much faster than one of each; most values contain no secret.
        texts = list[str]()
        same = map_leaves(value, partial(self._collect_text, texts), MASK)
        dirty = self._find_dirty(texts)
        return map_leaves(value, partial(self._redact_leaf, dirty), MASK) if dirty else same

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

    def _collect_text(self, texts: list[str], value: object) -> object:
        """Add the text of a leaf that has one and return it; redact any other leaf."""
        text = _get_text(value)
        if text is None:
            return self._redact_leaf(frozenset(), value)
        texts.append(text)
        return value

    def _find_dirty(self, texts: list[str]) -> frozenset[str]:
        """Return the texts that may contain a secret."""
        pieces = [text.encode("utf-8", "surrogatepass") for text in texts]
        spans = iter(self._spans(b"\n".join(pieces)))
        first, last = next(spans, (0, 0))
        dirty, start = set[str](), 0
        for text, piece in zip(texts, pieces, strict=True) if last else ():
            end = start + len(piece)
            while last and last <= start:
                first, last = next(spans, (0, 0))
            if last and first < end:
                dirty.add(text)
            start = end + 1
        return frozenset(dirty)

    def _redact_leaf(self, dirty: Collection[str], value: object) -> object:
        text = _get_text(value)
        if text is not None:
            clean = self.redact(text) if text in dirty else text
            return value if clean is text else clean if isinstance(value, str) else MASK
        if is_buffer(value):
            return self._redact_buffer(value)
        if isinstance(value, Secret):
            return MASK
        if isinstance(value, BaseException):
            return value if self.redact_error(value) else MASK
        return value

    def _redact_buffer(self, value: Buffer) -> object:
        data = bytes(value)
        clean = self.redact_bytes(data)
        return value if clean is data else clean

    def _is_visible_in(self, error: BaseException) -> bool:
        try:
            shown = f"{error}\n{error!r}"
        except Exception:  # noqa: BLE001  an exception that cannot be printed shows nothing
            return False
        return self.redact(shown) is not shown

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

    def _spans(self, data: bytes) -> list[Span]:
        self.prepare()
        spans = [] if self._matcher is None else self._matcher.find(data)
        found = [span for forms in self._tokens.values() for form in forms for span in _find_literal(form, data)]
        return merge_spans([*spans, *found]) if found else spans


def _get_text(value: object) -> str | None:
    """Return the text of a string or a number; `None` for any other value."""
    if isinstance(value, str):
        return value if type(value) is str else str.__str__(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return repr(value)
        except ValueError:  # more digits than Python converts
            return None
    return None
