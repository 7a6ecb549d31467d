"""Calls of obstore's blocking client, with its errors told in our words."""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from spindle.errors import SpoolError, UsageError
from spindle.extras import needs_extra

if TYPE_CHECKING:
    from obstore import ObjectMeta, WritableFile
    from obstore.store import ObjectStore as Client

PART_BYTES = 8 << 20
"""S3 takes 10,000 parts at most: 80 GB for one artifact."""

_CONCURRENT_PARTS = 2
_RETRIES: dict[str, Any] = {"max_retries": 4, "retry_timeout": timedelta(seconds=30)}
_TIMEOUTS: dict[str, Any] = {"timeout": timedelta(seconds=60), "connect_timeout": timedelta(seconds=5)}


@contextmanager
def storage_errors() -> Generator[None]:
    """Tell a failing store apart from a failing caller; what is not found stays a `FileNotFoundError`.

    Raises:
        SpoolError: The store is away, full, or refuses us.
    """
    from obstore.exceptions import BaseError  # noqa: PLC0415 - an extra

    try:
        yield
    except FileNotFoundError:
        raise
    except (BaseError, OSError) as error:
        raise SpoolError(
            f"the object store failed: {_first_line(error)}; check that it is up, and the url and keys"
        ) from error


@dataclass(frozen=True, slots=True)
class Objects:
    """The few things a spool asks of an object store."""

    client: "Client"

    @classmethod
    def from_url(cls, url: str, *, allow_http: bool | None = None, **options: Any) -> "Objects":
        """Reach the store that a url names; retries and timeouts have limits unless `options` say otherwise.

        Raises:
            MissingExtraError: The extra `objects` is not installed.
            UsageError: The url or an option is not understood.
        """
        with needs_extra("objects"):
            from obstore.exceptions import BaseError  # noqa: PLC0415 - an extra
            from obstore.store import from_url  # noqa: PLC0415 - an extra

        client_options = _TIMEOUTS | ({} if allow_http is None else {"allow_http": allow_http})
        options["client_options"] = client_options | options.get("client_options", {})
        options["retry_config"] = _RETRIES | options.get("retry_config", {})
        if url.startswith("file:"):
            options.setdefault("mkdir", True)
        try:
            return cls(from_url(url, **options))
        except (BaseError, OSError, ValueError, TypeError) as error:
            raise UsageError(
                f"no object store can be reached by {url!r} with these options: {_first_line(error)}", field="url"
            ) from error

    def open_writer(self, key: str) -> "WritableFile":
        """Begin an upload in parts, of which only a few are in memory at a time."""
        import obstore  # noqa: PLC0415 - an extra

        with storage_errors():
            return obstore.open_writer(self.client, key, buffer_size=PART_BYTES, max_concurrency=_CONCURRENT_PARTS)

    def put(self, key: str, data: bytes) -> None:
        """Put a small object, in place of any older one."""
        with storage_errors():
            self.client.put(key, data)

    def get(self, key: str) -> bytes | None:
        """Give a small object."""
        with suppress(FileNotFoundError), storage_errors():
            return bytes(self.client.get(key).bytes())
        return None

    def get_range(self, key: str, start: int, end: int) -> bytes | None:
        """Give a part of an object."""
        if start == end:
            return b""
        with suppress(FileNotFoundError), storage_errors():
            return bytes(self.client.get_range(key, start=start, end=end))
        return None

    def size(self, key: str) -> int | None:
        """Give the length of an object."""
        with suppress(FileNotFoundError), storage_errors():
            return self.client.head(key)["size"]
        return None

    def listing(self, folder: str) -> list[tuple[str, datetime]]:
        """Give the keys in a folder, and when each was written."""
        with suppress(FileNotFoundError), storage_errors():
            # An overload names a type of a package that is not needed here.
            found_in = self.client.list  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            pages = cast("Iterable[Sequence[ObjectMeta]]", found_in(f"{folder}/"))
            return [(found["path"], found["last_modified"]) for page in pages for found in page]
        return []

    def remove(self, keys: Sequence[str]) -> None:
        """Remove objects; those that are gone already do not matter."""
        for key in keys:
            with suppress(FileNotFoundError), storage_errors():
                self.client.delete(key)


def _first_line(error: Exception) -> str:
    # What follows is a dump of the client's own structures.
    return str(error).partition("\n")[0]
