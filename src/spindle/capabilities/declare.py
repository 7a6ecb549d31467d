"""Declarations of the resources a tool needs, and the scope of the call they are opened for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, get_args

from spindle.errors import CapabilityError

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
        if not isinstance(name, str) or not name.strip():  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
            raise CapabilityError(f"capability {field}: expected non-empty names, got {name!r}", field=field)
    return names


def _check_choice(value: str | None, options: tuple[str, ...], field: str) -> str | None:
    if value is not None and value not in options:
        raise CapabilityError(f"capability {field}: expected one of {', '.join(options)}; got {value!r}", field=field)
    return value


def _check_file_reach(value: FileReach | None) -> FileReach | None:
    if value is not None and not isinstance(value, FileReach):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
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
    spool: Any = None
    events: Any = None
    attachments: tuple[Any, ...] = ()
    """Media the user sent with the turn."""
    redactor: Any = None
    """Registers every secret that is handed out, so that it is masked wherever it appears."""
