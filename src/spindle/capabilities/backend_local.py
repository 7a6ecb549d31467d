"""The factory behind `Backends.local`: default backends for one machine."""

from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any

from spindle.capabilities.attachments import AttachmentsBackend
from spindle.capabilities.files.backend import FilesBackend
from spindle.capabilities.process.backend import ProcessBackend
from spindle.capabilities.secrets.backend import SecretsBackend
from spindle.capabilities.storage.backend_local import MemoryKeyValueStore, SqliteKeyValueStore
from spindle.capabilities.storage.store import StorageBackend


def build_local_backends(
    root: str | PathLike[str],
    *,
    hosts: tuple[str, ...],
    commands: tuple[str, ...],
    secrets: Mapping[str, str] | Callable[[str], Any] | None,
    private_addresses: tuple[str, ...],
    read: tuple[str, ...] | None,
    write: tuple[str, ...] | None,
    storage_path: str | PathLike[str] | None,
    shell: bool,
) -> dict[str, Any]:
    """Build the backends by capability name; network is built only if hosts are granted, because it needs an extra."""
    served: dict[str, Any] = {
        "files": FilesBackend(root, read=read, write=write),
        "secrets": SecretsBackend({} if secrets is None else secrets),
        "storage": StorageBackend(MemoryKeyValueStore() if storage_path is None else SqliteKeyValueStore(storage_path)),
        "attachments": AttachmentsBackend(),
    }
    if commands:
        served["process"] = ProcessBackend(commands, root=root, shell=shell)
    if hosts:
        from spindle.capabilities.network.backend import NetworkBackend  # noqa: PLC0415 - an extra

        served["network"] = NetworkBackend(hosts, private_addresses=private_addresses)
    return served
