"""Which of a tool's declared needs are served, and by what: decided anew for each call."""

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
    """What serves each capability for real; `None` serves nobody, so a tool that needs it is refused.

    A backend has `open(need, scope)`, which gives the handle of one call: what the tool declared and it grants.
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
        """Serve all six on this machine: files under `root`, and the hosts, commands and secrets that are named.

        Raises:
            CapabilityError: A grant is not of its kind.
            MissingExtraError: Hosts are granted, and the extra `network` is not installed.
        """
        from spindle.capabilities.backend_local import local_backends  # noqa: PLC0415 - a port's factory method

        served = local_backends(
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


def unserved(needs: Capabilities, backends: Backends) -> list[str]:
    """Name the declared needs that have no backend."""
    return [name for name in CAPABILITY_NAMES if _declared(needs, name) and getattr(backends, name) is None]


def handles(needs: Capabilities, backends: Backends, scope: CallScope) -> Mapping[str, Any] | None:
    """Open the handle of each declared need, and of no other; something that cannot be opened is a handle itself."""
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
    """Close what a call opened, also while it is being cancelled."""
    for handle in (opened or {}).values():
        close = getattr(handle, "aclose", None)
        if callable(close):
            with anyio.move_on_after(_SECONDS_TO_CLOSE, shield=True):
                await cast("Awaitable[object]", close())


def _declared(needs: Capabilities, name: str) -> bool:
    return getattr(needs, name) is not None


class Needy(Protocol):
    """What is asked of a tool."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What it declares that it needs."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Unmet:
    """One need that is not granted."""

    tool: str
    capability: str
    message: str


def validate(tool: Needy, policy: Backends) -> list[Unmet]:
    """List every need of a tool that a policy does not grant, or grants only in part."""
    found: list[Unmet] = []
    for name in CAPABILITY_NAMES:
        need = getattr(tool.capabilities, name)
        if need is None:
            continue
        messages = _unmet(name, need, getattr(policy, name))
        found += [Unmet(tool=tool.name, capability=name, message=message) for message in messages]
    return found


def _unmet(name: str, need: Any, backend: Any) -> Iterator[str]:
    if backend is None:
        yield f"nothing serves {name}; give Backends({name}=…)"
        return
    asked = cast("Callable[[Any], list[str]] | None", getattr(backend, "lacking", None))
    if asked is None:
        return
    for part in _parts(need):
        try:
            lacking = asked(part)
        except CapabilityError as error:  # what can never be granted, such as a host that is none
            yield f"{name}: {error}"
        else:
            yield from (f"{name}: {what} is not granted" for what in lacking)


def _parts(need: Any) -> Iterator[Any]:
    """Give each of several needs alone, so that one that is no need at all hides no other."""
    if isinstance(need, FileReach):
        yield from (FileReach(read=[path]) for path in need.read)
        yield from (FileReach(write=[path]) for path in need.write)
    elif isinstance(need, tuple):
        yield from ((one,) for one in cast("tuple[str, ...]", need))
    else:
        yield need
