"""The file `server.json` of the state folder: where the `spindle serve` of this state can be reached while it runs."""

import json
import os
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from spindle.cli.config.loader import Config
from spindle.cli.output import print_message
from spindle.json_types import is_object

NAME: Final = "server.json"
_MAX_BYTES: Final = 64 << 10


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerRecord:
    """What a running server says about itself."""

    address: str
    """Scheme, host and port, such as `http://127.0.0.1:8321`."""
    pid: int
    started: str
    page: bool
    """Whether it serves the page and its API."""
    certificate: str | None = None
    """The file of its certificate, if it speaks HTTPS."""

    @property
    def is_alive(self) -> bool:
        """Whether its process may still run."""
        if self.pid <= 0:
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except OverflowError:
            return False
        except OSError:  # a process of another user
            return True
        return True


def write_record(config: Config, address: str, *, page: bool, certificate: str | None) -> ServerRecord:
    """Write where this server can be reached, for its owner only; a failure is printed, and the server goes on."""
    scheme, _, rest = address.partition("://")
    record = ServerRecord(
        address=f"{scheme}://{rest.partition('/')[0]}",
        pid=os.getpid(),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        page=page,
        certificate=certificate,
    )
    path = config.state / NAME
    try:
        config.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        number, draft = tempfile.mkstemp(dir=config.state, prefix=f".{NAME}.")  # its mode is 0600
        try:
            with os.fdopen(number, "w", encoding="utf-8") as opened:
                json.dump(asdict(record), opened)
            Path(draft).replace(path)
        finally:
            Path(draft).unlink(missing_ok=True)
    except OSError as error:
        print_message(f"cannot write {path}: {error.strerror}", "`spindle page` will not find this server")
    return record


def read_record(config: Config) -> ServerRecord | None:
    """Return what the running server of this state has written; `None` if none runs, or the file is not valid."""
    try:
        with (config.state / NAME).open("rb") as opened:
            if os.name == "posix" and os.fstat(opened.fileno()).st_uid != os.geteuid():
                return None
            content: object = json.loads(opened.read(_MAX_BYTES))
        if not is_object(content):
            return None
        certificate = content.get("certificate")
        record = ServerRecord(
            address=str(content["address"]),
            pid=int(content["pid"]),
            started=str(content["started"]),
            page=content["page"] is True,
            certificate=None if certificate is None else str(certificate),
        )
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    return record if record.is_alive else None


def remove_record(config: Config, record: ServerRecord) -> None:
    """Remove the file of this server, unless another one has replaced it."""
    if read_record(config) == record:
        with suppress(OSError):
            (config.state / NAME).unlink()
