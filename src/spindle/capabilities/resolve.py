"""The backends of the capabilities: opening and closing a call's handles, and checking a tool against a policy."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, Protocol, cast

import anyio

from spindle.capabilities.declare import CAPABILITY_NAMES, NO_CAPABILITIES, CallScope, Capabilities, FileReach
from spindle.errors import CapabilityError

_SECONDS_TO_CLOSE = 5


@dataclass(frozen=True, slots=True)
class Backends:
    """The backend of each capability; with `None`, tools that declare the capability are rejected.

    A backend has `open(need, scope)`, which returns the handle of one call, limited to what the tool declared and the
    backend grants.
    """

    network: Any = None
    secrets: Any = None
    storage: Any = None
    files: Any = None
    process: Any = None
    attachments: Any = None

    @classmethod
    def local(
        cls,
        root: str | PathLike[str],
        *,
        hosts: Iterable[str] = (),
        commands: Iterable[str] = (),
        secrets: Mapping[str, str] | Callable[[str], Any] | None = None,
        private_addresses: Iterable[str] = (),
        read: Iterable[str] | None = None,
        write: Iterable[str] | None = None,
        storage_path: str | PathLike[str] | None = None,
        shell: bool = False,
    ) -> "Backends":
        """Build backends for this machine: files under `root`, and the given hosts, commands and secrets.

        Raises:
            CapabilityError: A grant has the wrong type or an invalid value.
            MissingExtraError: Hosts are granted, but the extra `network` is not installed.
        """
        from spindle.capabilities.backend_local import build_local_backends  # noqa: PLC0415 - a port's factory method

        served = build_local_backends(
            root,
            hosts=tuple(hosts),
            commands=tuple(commands),
            secrets=secrets,
            private_addresses=tuple(private_addresses),
            read=None if read is None else tuple(read),
            write=None if write is None else tuple(write),
            storage_path=storage_path,
            shell=shell,
        )
        return cls(**served)


NO_BACKENDS = Backends()


def find_missing_backends(needs: Capabilities, backends: Backends) -> list[str]:
    """Return the names of the declared capabilities that have no backend."""
    return [name for name in CAPABILITY_NAMES if _is_declared(needs, name) and getattr(backends, name) is None]


def open_handles(needs: Capabilities, backends: Backends, scope: CallScope) -> Mapping[str, Any] | None:
    """Open a handle for each declared capability; a backend without `open` is used as the handle itself."""
    if needs is NO_CAPABILITIES:
        return None
    found: dict[str, Any] = {}
    for name in CAPABILITY_NAMES:
        need = getattr(needs, name)
        if need is not None:
            backend = getattr(backends, name)
            opener = getattr(backend, "open", None)
            found[name] = opener(need, scope) if callable(opener) else backend
    return found or None


async def close_handles(opened: Mapping[str, Any] | None) -> None:
    """Close the handles of a call, even while it is being cancelled."""
    for handle in (opened or {}).values():
        close = getattr(handle, "aclose", None)
        if callable(close):
            with anyio.move_on_after(_SECONDS_TO_CLOSE, shield=True):
                await cast("Awaitable[object]", close())


def _is_declared(needs: Capabilities, name: str) -> bool:
    return getattr(needs, name) is not None


class DeclaringTool(Protocol):
    """The part of a tool that `validate` reads."""

    @property
    def name(self) -> str:
        """The tool's name."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities the tool declares."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class MissingGrant:
    """A declared capability, or a part of one, that is not granted."""

    tool: str
    capability: str
    message: str


def validate(tool: DeclaringTool, policy: Backends) -> list[MissingGrant]:
    """Return each declared capability of a tool that a policy does not grant, or grants only in part."""
    found: list[MissingGrant] = []
    for name in CAPABILITY_NAMES:
        need = getattr(tool.capabilities, name)
        if need is None:
            continue
        messages = _find_missing_grants(name, need, getattr(policy, name))
        found += [MissingGrant(tool=tool.name, capability=name, message=message) for message in messages]
    return found


def _find_missing_grants(name: str, need: Any, backend: Any) -> Iterator[str]:
    if backend is None:
        yield f"no backend for {name}; pass Backends({name}=…)"
        return
    asked = cast("Callable[[Any], list[str]] | None", getattr(backend, "lacking", None))
    if asked is None:
        return
    for part in _split_need(need):
        try:
            lacking = asked(part)
        except CapabilityError as error:  # a value that can never be granted, such as an invalid host name
            yield f"{name}: {error}"
        else:
            yield from (f"{name}: {what} is not granted" for what in lacking)


def _split_need(need: Any) -> Iterator[Any]:
    """Yield each part of a need separately, so that an invalid part does not hide the others."""
    if isinstance(need, FileReach):
        yield from (FileReach(read=[path]) for path in need.read)
        yield from (FileReach(write=[path]) for path in need.write)
    elif isinstance(need, tuple):
        yield from ((one,) for one in cast("tuple[str, ...]", need))
    else:
        yield need
