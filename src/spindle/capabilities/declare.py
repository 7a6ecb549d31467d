"""Declarations of the resources a tool needs, and the port of the backends that serve them."""

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, TypeVar, get_args

from spindle.errors import CapabilityError
from spindle.json_types import untyped

if TYPE_CHECKING:
    from spindle.events import Events
    from spindle.media import Media

StorageScope: TypeAlias = Literal["tool", "session", "turn"]
MediaKind: TypeAlias = Literal["image", "audio", "video", "document"]

CAPABILITY_NAMES = ("network", "secrets", "storage", "files", "process", "attachments")


@dataclass(frozen=True, slots=True, init=False)
class FileReach:
    """The folders and files a tool reads and writes, relative to the backend's root."""

    read: tuple[str, ...]
    write: tuple[str, ...]

    def __init__(self, read: Iterable[str] = (), write: Iterable[str] = ()) -> None:
        object.__setattr__(self, "read", _check_names(read, "files.read") or ())
        object.__setattr__(self, "write", _check_names(write, "files.write") or ())


@dataclass(frozen=True, slots=True, init=False)
class Capabilities:
    """The capabilities a tool declares; `None` means that the capability is not needed."""

    network: tuple[str, ...] | None
    """Hosts: exact names, `*.example.com` for the subdomains of example.com, `*` for any public host."""
    secrets: tuple[str, ...] | None
    storage: StorageScope | None
    files: FileReach | None
    process: tuple[str, ...] | None
    attachments: tuple[str, ...] | None
    """Media kinds; `*` for all of them."""

    def __init__(  # noqa: PLR0917  the order is that of the public surface
        self,
        network: Iterable[str] | None = None,
        secrets: Iterable[str] | None = None,
        storage: StorageScope | None = None,
        files: FileReach | None = None,
        process: Iterable[str] | None = None,
        attachments: Iterable[MediaKind | Literal["*"]] | None = None,
    ) -> None:
        """Validate and freeze each declaration.

        Raises:
            CapabilityError: A declaration has the wrong type or an unknown value.
        """
        put = object.__setattr__
        put(self, "network", _check_names(network, "network"))
        put(self, "secrets", _check_names(secrets, "secrets"))
        put(self, "storage", _check_choice(storage, get_args(StorageScope), "storage"))
        put(self, "files", _check_file_reach(files))
        put(self, "process", _check_names(process, "process"))
        kinds = _check_names(attachments, "attachments")
        for kind in kinds or ():
            _check_choice(kind, (*get_args(MediaKind), "*"), "attachments")
        put(self, "attachments", kinds)

    def declared(self) -> tuple[str, ...]:
        """Return the names of the declared capabilities."""
        return tuple(field.name for field in fields(self) if getattr(self, field.name) is not None)


def _check_names(value: Iterable[str] | None, field: str) -> tuple[str, ...] | None:
    if value is None:
        return None
    # A lone string is iterable too: "git" would become the commands "g", "i" and "t".
    if isinstance(value, (str, bytes, Mapping)):
        raise CapabilityError(
            f"capability {field}: expected a list of names, got {value!r}; write [{value!r}]", field=field
        )
    names = tuple(value)
    for name in names:
        if not isinstance(untyped(name), str) or not name.strip():
            raise CapabilityError(f"capability {field}: expected non-empty names, got {name!r}", field=field)
    return names


def _check_choice(value: str | None, options: tuple[str, ...], field: str) -> str | None:
    if value is not None and value not in options:
        raise CapabilityError(f"capability {field}: expected one of {', '.join(options)}; got {value!r}", field=field)
    return value


def _check_file_reach(value: FileReach | None) -> FileReach | None:
    if value is not None and not isinstance(untyped(value), FileReach):
        raise CapabilityError(
            f"capability files: expected FileReach(read=[…], write=[…]), got {value!r}", field="files"
        )
    return value


NO_CAPABILITIES = Capabilities()


@dataclass(frozen=True, kw_only=True, slots=True)
class CallScope:
    """The call a capability handle is opened for."""

    tool: str
    session_id: str
    turn_id: str | None = None
    toolset: str | None = None
    """The toolset of the tool; tools of one toolset share their storage."""
    spool: "OutputSpool | None" = None
    """Stores output that is too large for a result; `None` stores none."""
    events: "Events | None" = None
    attachments: "tuple[Media, ...]" = ()
    """Media the user sent with the turn."""
    files: FileReach | None = None
    """The files that the tool declared beside its commands, which see no others; `None` if it declared none."""
    redactor: "SecretCollector | None" = None
    """Receives every secret that is handed out; `None` masks none of them outside the handle."""


class OutputSpool(Protocol):
    """The part of a `Spool` that a backend writes large output to."""

    async def write(self, id: str, content: AsyncIterator[bytes], *, turn_id: str | None = None) -> object:
        """Store the content under an id."""
        ...


class SecretCollector(Protocol):
    """The part of a `Redactor` that learns the secrets to mask."""

    def add(self, value: str) -> None:
        """Mask this text from now on."""
        ...

    def prepare(self) -> None:
        """Compile the patterns now; for long secrets, in a thread."""
        ...

    def mask_stream(self) -> "StreamFilter":
        """Return a filter that masks the secrets in a stream of bytes."""
        ...


class StreamFilter(Protocol):
    """A filter for a stream of bytes that holds back its end until more is known."""

    def feed(self, piece: bytes) -> bytes:
        """Return what can be passed on after this piece."""
        ...

    def close(self) -> bytes:
        """Return the rest."""
        ...


async def mask_pieces(pieces: AsyncIterator[bytes], redactor: SecretCollector | None) -> AsyncIterator[bytes]:
    """Yield the pieces with the secrets masked that the tool has received: the spool may be on disk."""
    masked = None if redactor is None else redactor.mask_stream()
    async for piece in pieces:
        yield piece if masked is None else masked.feed(piece)
    if masked is not None:
        yield masked.close()


Need: TypeAlias = tuple[str, ...] | StorageScope | FileReach
"""What a tool declares of one capability: names, a storage scope or paths."""

_Need_contra = TypeVar("_Need_contra", contravariant=True)
_Handle_co = TypeVar("_Handle_co", covariant=True)


class CapabilityBackend(Protocol[_Need_contra, _Handle_co]):
    """The backend of one capability: it opens the handle of each call.

    A backend may also have `lacking(need) -> list[str]`, which names the declared parts that it does not grant, and its
    handles may have `async aclose()`, which is awaited when the call has ended.
    """

    def open(self, need: _Need_contra, scope: CallScope, /) -> _Handle_co:
        """Return the handle of one call, limited to what the tool declared and the backend grants."""
        ...
