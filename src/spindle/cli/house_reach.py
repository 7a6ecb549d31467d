"""What the tools of a configuration can get at."""

import os
from collections.abc import Callable, Mapping

from spindle.capabilities.backends.secrets import from_file
from spindle.capabilities.resolve import Backends
from spindle.cli.config import Config
from spindle.cli.house_headers import header_values
from spindle.errors import CapabilityError, SecretError


def backends_of(config: Config) -> Backends:
    """Serve what `[reach]` grants; the scratch workspace may be written, a folder of the user's only as far as said.

    Raises:
        InvalidConfigError: The root is no folder, or a grant is not of its kind.
        MissingExtraError: Hosts are granted, and the extra `network` is not installed.
    """
    reach = config.reach
    if reach.root is not None and not config.root.is_dir():
        raise config.error(("reach", "root"), f"{config.root} is no folder; make it, or name another")
    try:
        _make_folders(config)
    except OSError as error:
        what = f"{config.state} cannot be written ({error.strerror}); name another folder with --state"
        raise config.error(("spindle", "state"), what) from error
    try:
        return Backends.local(
            config.root,
            hosts=reach.hosts,
            commands=reach.commands,
            secrets=secrets_of(config),
            private_addresses=reach.private_addresses,
            read=reach.read,
            write=granted_writing(config),
            storage_path=config.storage,
            shell=reach.shell,
        )
    except CapabilityError as error:
        raise config.error(("reach",), str(error)) from error


def _make_folders(config: Config) -> None:
    if config.reach.root is None:
        config.state.mkdir(mode=0o700, parents=True, exist_ok=True)  # parents of a new folder get the usual mode
        config.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    if config.storage is not None:
        config.storage.parent.mkdir(mode=0o700, parents=True, exist_ok=True)


def granted_writing(config: Config) -> tuple[str, ...]:
    """The folders that may be written: nothing of the user's own unless it is named."""
    if config.reach.write is not None:
        return config.reach.write
    return (".",) if config.reach.root is None else ()


def secrets_of(config: Config, environ: Mapping[str, str] = os.environ) -> Callable[[str], str | None]:
    """Look up the named secrets, and no others: in the environment first, then in the secrets file.

    Raises:
        InvalidConfigError: The file cannot be used.
    """
    named = {*config.reach.secrets, *config.tools.http_secrets}
    for entry in config.servers.values():
        named.update(entry.env_secrets.values(), entry.header_secrets.values())
    in_file: Callable[[str], object] | None = None
    if config.secrets_file is not None:
        try:
            in_file = from_file(config.secrets_file)
        except SecretError as error:
            raise config.error(("reach", "secrets_file"), str(error)) from error

    def look_up(name: str) -> str | None:
        if name not in named:
            return None
        value = environ.get(name)
        if value is None and in_file is not None:
            found = in_file(name)
            value = found if isinstance(found, str) else None
        return value

    return look_up


def server_secrets(config: Config) -> Callable[[str], str]:
    """Look up the secrets that MCP servers are given; one that is not set is an error that names it."""
    look_up, in_headers = secrets_of(config), header_values(config.servers)

    def found(name: str) -> str:
        value = in_headers.get(name) or look_up(name)
        if not value:
            raise SecretError(f"the secret {name!r} is not set: export {name}=…, or put it in reach.secrets_file")
        return value

    return found
