"""Editing `spindle.toml`: a change is checked by the loader before it is written, and trust in the file is kept."""

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from spindle.addresses import get_scheme
from spindle.cli.atomic_file import read_bytes, replace_file
from spindle.cli.config.loader import load_config, parse_config
from spindle.cli.config.sources import NAME, config_home, find_config
from spindle.cli.config.trust import TrustStore
from spindle.cli.main import NOT_FOUND, USAGE
from spindle.cli.toml_tables import get_table, put_table, remove_table
from spindle.errors import CommandError, InvalidConfigError, SpindleError, UntrustedConfigError
from spindle.json_types import JsonValue
from spindle.text import did_you_mean

SERVERS: Final = ("mcp", "servers")
CREATED: Final = "which was created"
_FIRST: Final = """# The configuration of Spindle; docs/configuration.md lists every key.
[tools]
kit = true  # the built-in tools, which are there without a configuration, too
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class EditableConfig:
    """A configuration file that is to be edited; it may not exist yet."""

    path: Path
    data: bytes | None
    is_chosen: bool
    """Whether it is used without trust: it is the user's own, or was named."""
    was_trusted: bool
    """Whether `spindle trust` has accepted it as it is."""

    @property
    def text(self) -> str:
        """The text to edit."""
        return _FIRST if self.data is None else self.data.decode("utf-8")


@dataclass(frozen=True, kw_only=True, slots=True)
class EditedConfig:
    """A checked change of a configuration file that has not been written yet."""

    path: Path
    before: bytes | None
    after: bytes
    is_chosen: bool
    was_trusted: bool

    def write(self) -> None:
        """Write the change; a file that was trusted, or is new, is trusted with it.

        Raises:
            CommandError: The file has changed meanwhile, or cannot be written.
        """
        if self.before is None:
            _create_folder(self.path.parent)
        replace_file(self.path, before=self.before, after=self.after)
        # The user has made this change: it needs no second look, but what was not accepted before stays so.
        if self.was_trusted or (self.before is None and not self.is_chosen):
            _, file = parse_config(self.path, self.after)
            _open_store().accept(self.path, self.after, file)

    def describe_trust(self) -> Literal["chosen", "trusted", "untrusted"]:
        """Return whether the file is used as it is now."""
        if self.is_chosen:
            return "chosen"
        return "trusted" if self.was_trusted or self.before is None else "untrusted"


def find_editable(given: Path | None, *, in_project: bool = False) -> EditableConfig:
    """Return the file that the commands would use; without one, the user's own or, `in_project`, the working folder's.

    Raises:
        CommandError: The file cannot be read.
        InvalidConfigError: The path is a URL, or the file is invalid.
    """
    cwd = Path.cwd()
    named = given or (Path(os.environ["SPINDLE_CONFIG"]) if os.environ.get("SPINDLE_CONFIG") else None)
    if named is not None:
        if get_scheme(str(named)) is not None:
            raise InvalidConfigError("expected the path of a file, got a URL")
        path, is_chosen = (cwd / named.expanduser()).absolute(), True
    elif (found := find_config(None, cwd=cwd, environ=os.environ)) is not None:
        path, is_chosen = found.path, found.is_chosen
    else:
        path = cwd / NAME if in_project else config_home(os.environ) / NAME
        is_chosen = not in_project
    data = read_bytes(path)
    if data is not None:
        parse_config(path, data)
    was_trusted = data is not None and _is_trusted(path, data)
    return EditableConfig(path=path, data=data, is_chosen=is_chosen, was_trusted=was_trusted)


def put_server(place: EditableConfig, name: str, entry: Mapping[str, JsonValue], *, replace: bool) -> EditedConfig:
    """Return the change that adds a server.

    Raises:
        CommandError: A server of that name exists and `replace` is false.
        InvalidConfigError: The loader would refuse the file.
    """
    if not replace and get_table(place.text, SERVERS, name) is not None:
        raise CommandError(
            f"{place.path} already has a server {name!r}", exit_code=USAGE, hint="--force replaces it; or choose a name"
        )
    return _check(place, put_table(place.text, SERVERS, name, entry))


def remove_server(place: EditableConfig, name: str) -> EditedConfig:
    """Return the change that removes a server.

    Raises:
        CommandError: There is no such server.
        InvalidConfigError: The loader would refuse the file.
    """
    if place.data is None or get_table(place.text, SERVERS, name) is None:
        known = {} if place.data is None else parse_config(place.path, place.data)[1].mcp.servers
        hint = did_you_mean(name, known, f"known: {', '.join(known) or 'none'}")
        raise CommandError(f"{place.path} has no server {name!r}", exit_code=NOT_FOUND, hint=hint)
    return _check(place, remove_table(place.text, SERVERS, name))


def _check(place: EditableConfig, text: str) -> EditedConfig:
    data = text.encode()
    parse_config(place.path, data)
    try:
        _load_copy(place.path, data)
    except SpindleError:
        # A file that did not load before, for example without a variable, can be edited all the same.
        if place.data is None or _loads(place.path, place.data):
            raise
    return EditedConfig(
        path=place.path,
        before=place.data,
        after=data,
        is_chosen=place.is_chosen,
        was_trusted=place.was_trusted,
    )


def _loads(path: Path, data: bytes) -> bool:
    try:
        _load_copy(path, data)
    except SpindleError:
        return False
    return True


def _load_copy(path: Path, data: bytes) -> None:
    """Load the content from a copy beside the file, so that relative paths mean the same."""
    folder = next(each for each in path.parents if each.is_dir())
    try:
        number, name = tempfile.mkstemp(dir=folder, prefix=".spindle-check-", suffix=".toml")
    except OSError as error:
        raise CommandError(f"cannot write to {folder}: {error.strerror}", exit_code=1) from error
    try:
        with os.fdopen(number, "wb") as opened:
            opened.write(data)
        load_config(Path(name))
    except InvalidConfigError as error:
        raise InvalidConfigError(str(error).replace(name, str(path)), path=str(path), field=error.field) from None
    finally:
        Path(name).unlink(missing_ok=True)


def _is_trusted(path: Path, data: bytes) -> bool:
    store = _open_store()
    with suppress(UntrustedConfigError):
        store.check_file(path, data)
        store.check_local_code(path, parse_config(path, data)[1])
        return True
    return False


def _open_store() -> TrustStore:
    return TrustStore.open(cwd=Path.cwd(), environ=os.environ)


def _create_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise CommandError(f"cannot create {folder}: {error.strerror}", exit_code=1) from error
