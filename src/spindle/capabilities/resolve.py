"""The backends of the capabilities: opening and closing a call's handles, and checking a tool against a policy."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Protocol, TypedDict, cast

import anyio

from spindle import capabilities
from spindle.addresses import refuse_url
from spindle.capabilities.declare import (
    CAPABILITY_NAMES,
    NO_CAPABILITIES,
    CallScope,
    Capabilities,
    CapabilityBackend,
    FileReach,
    Need,
    StorageScope,
)
from spindle.errors import CapabilityError
from spindle.json_types import untyped

if TYPE_CHECKING:
    from spindle.capabilities.attachments import Attachments
    from spindle.capabilities.files.paths import Files
    from spindle.capabilities.network.handle import Network
    from spindle.capabilities.process.policy import Process, SandboxMode
    from spindle.capabilities.secrets.backend import Source
    from spindle.capabilities.secrets.secret import Secrets
    from spindle.capabilities.storage.store import Storage

_SECONDS_TO_CLOSE = 5


class Handles(TypedDict, total=False):
    """The handles of one call by capability: those that its tool declared."""

    network: "Network"
    secrets: "Secrets"
    storage: "Storage"
    files: "Files"
    process: "Process"
    attachments: "Attachments"


@dataclass(frozen=True, slots=True)
class Backends:
    """The backend of each capability; with `None`, tools that declare the capability are rejected.

    Each is a `CapabilityBackend`, whose `open(need, scope)` returns the handle of one call, or the handle itself.
    """

    network: "CapabilityBackend[tuple[str, ...], Network] | Network | None" = None
    secrets: "CapabilityBackend[tuple[str, ...], Secrets] | Secrets | None" = None
    storage: "CapabilityBackend[StorageScope, Storage] | Storage | None" = None
    files: "CapabilityBackend[FileReach, Files] | Files | None" = None
    process: "CapabilityBackend[tuple[str, ...], Process] | Process | None" = None
    attachments: "CapabilityBackend[tuple[str, ...], Attachments] | Attachments | None" = None

    @classmethod
    def local(
        cls,
        root: str | PathLike[str],
        *,
        hosts: Iterable[str] = (),
        commands: Iterable[str] = (),
        secrets: "Source | None" = None,
        private_addresses: Iterable[str] = (),
        read: Iterable[str] | None = None,
        write: Iterable[str] | None = None,
        storage_path: str | PathLike[str] | None = None,
        shell: bool = False,
        allowed_env: Iterable[str] = (),
        credential_files: Iterable[str] = (),
        sandbox: "SandboxMode" = "auto",
    ) -> "Backends":
        """Build backends for this machine: files under `root`, and the given hosts, commands and secrets.

        `read`, `write` and `credential_files` bind commands too, unless `sandbox` is `"none"`.

        Raises:
            CapabilityError: A grant has the wrong type or an invalid value.
            MissingExtraError: Hosts are granted, but the extra `network` is not installed.
        """
        hosts, commands, credential_files = tuple(hosts), tuple(commands), _check_paths(credential_files)
        read, write = (None if paths is None else _check_paths(paths) for paths in (read, write))
        storage = capabilities.StorageBackend
        return cls(
            files=capabilities.FilesBackend(root, read=read, write=write, credential_files=credential_files),
            secrets=capabilities.SecretsBackend({} if secrets is None else secrets),
            storage=storage.memory() if storage_path is None else storage.sqlite(storage_path),
            attachments=capabilities.AttachmentsBackend(),
            process=capabilities.ProcessBackend(
                commands,
                root=root,
                shell=shell,
                allowed_env=allowed_env,
                read=read,
                write=write,
                credential_files=credential_files,
                sandbox=sandbox,
            )
            if commands
            else None,
            # Built only if hosts are granted, because it needs an extra.
            network=capabilities.NetworkBackend(hosts, private_addresses=private_addresses) if hosts else None,
        )


def _check_paths(paths: Iterable[str]) -> Iterable[str]:
    """Return paths that can be read twice; a lone text is left as it is, for the backend to reject.

    Raises:
        UsageError: A path is a URL.
    """
    if isinstance(paths, (str, bytes)):
        return paths
    checked = tuple(paths)
    for path in checked:
        if isinstance(untyped(path), (str, PathLike)):
            refuse_url(path)
    return checked


NO_BACKENDS = Backends()


def find_missing_backends(needs: Capabilities, backends: Backends) -> list[str]:
    """Return the names of the declared capabilities that have no backend."""
    return [name for name in CAPABILITY_NAMES if _is_declared(needs, name) and getattr(backends, name) is None]


def open_handles(needs: Capabilities, backends: Backends, scope: CallScope) -> Handles | None:
    """Open a handle for each declared capability; a backend without `open` is used as the handle itself."""
    if needs is NO_CAPABILITIES:
        return None
    found: dict[str, object] = {}
    if needs.process is not None and needs.files is not None:
        scope = replace(scope, files=needs.files)
    for name in CAPABILITY_NAMES:
        need = getattr(needs, name)
        if need is not None:
            backend = getattr(backends, name)
            opener = getattr(backend, "open", None)
            found[name] = opener(need, scope) if callable(opener) else backend
    return cast("Handles", found) if found else None


async def close_handles(opened: Handles | None) -> None:
    """Close the handles of a call, even while it is being cancelled."""
    for handle in (opened or {}).values():
        close: Callable[[], Awaitable[object]] | None = getattr(handle, "aclose", None)
        if callable(close):
            with anyio.move_on_after(_SECONDS_TO_CLOSE, shield=True):
                await close()


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


def _find_missing_grants(name: str, need: Need, backend: object) -> Iterator[str]:
    if backend is None:
        yield f"no backend for {name}; pass Backends({name}=…)"
        return
    asked: Callable[[Need], list[str]] | None = getattr(backend, "lacking", None)
    if asked is None:
        return
    for part in _split_need(need):
        try:
            lacking = asked(part)
        except CapabilityError as error:  # a value that can never be granted, such as an invalid host name
            yield f"{name}: {error}"
        else:
            yield from (f"{name}: {what} is not granted" for what in lacking)


def _split_need(need: Need) -> Iterator[Need]:
    """Yield each part of a need separately, so that an invalid part does not hide the others."""
    if isinstance(need, FileReach):
        yield from (FileReach(read=[path]) for path in need.read)
        yield from (FileReach(write=[path]) for path in need.write)
    elif isinstance(need, tuple):
        yield from ((one,) for one in need)
    else:
        yield need
