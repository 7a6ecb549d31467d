"""What leaves the server: answers as JSON, static files, and work that ends when its client leaves."""

import json
from collections.abc import Awaitable, Callable, Iterator
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple, TypeVar

from anyio import CancelScope, create_task_group
from pydantic import BaseModel
from pydantic_core import to_jsonable_python
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from spindle.concurrency import WorkerThreads
from spindle.json_types import is_array, is_mapping

T = TypeVar("T")

SMALL_PARTS: Final = 300
"""An answer with more values is large."""
SMALL_CHARS: Final = 20_000
_threads: Final = WorkerThreads()
_KINDS: Final = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml", "json": "application/json"}


async def serialize(answer: BaseModel) -> bytes:
    """Return an answer as JSON; a large one is written in a thread, so that the event loop goes on meanwhile."""
    return await _threads.run_abandonable(_write, answer) if is_large(answer) else _write(answer)


def is_large(answer: BaseModel) -> bool:
    """Return whether it takes long to write an answer; this itself looks at a bounded part of it."""
    left: list[object] = [answer]
    parts = chars = 0
    while left:
        part = left.pop()
        if isinstance(part, str):
            chars += len(part)
        elif isinstance(part, BaseModel):
            left.extend(part.__dict__.values())
        elif is_mapping(part) or is_array(part):
            if len(part) > SMALL_PARTS:
                return True
            left.extend(part.values() if is_mapping(part) else part)
        parts += 1
        if parts > SMALL_PARTS or chars > SMALL_CHARS:
            return True
    return False


def _write(answer: BaseModel) -> bytes:
    try:
        return answer.model_dump_json().encode()
    except ValueError:  # half of a character, which JSON can write only as a number
        return json.dumps(answer.model_dump(), default=to_jsonable_python).encode()


class _StaticFile(NamedTuple):
    content: bytes
    kind: str
    etag: str


def build_file_response(path: str, known_etag: str | None) -> Response:
    """Return a static file by its exact path below the folder, with an ETag; 404 for any other path."""
    found = _read_all().get(path)
    if found is None:
        return Response("not found\n", status_code=404, media_type="text/plain")
    headers = {"Cache-Control": "no-cache", "ETag": found.etag}
    if known_etag == found.etag:
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.kind, headers=headers)


@cache
def _read_all() -> dict[str, _StaticFile]:
    return dict(_walk(files("spindle.inspector") / "static", ""))


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, _StaticFile]]:
    for each in folder.iterdir():
        kind = _KINDS.get(each.name.rpartition(".")[2])
        if each.is_dir():
            yield from _walk(each, f"{prefix}{each.name}/")
        elif kind is not None:
            content = each.read_bytes()
            yield f"{prefix}{each.name}", _StaticFile(content, kind, f'"{sha256(content).hexdigest()[:24]}"')


async def run_while_connected(request: Request, work: Callable[[], Awaitable[T]]) -> T:
    """Return the result of `work`, which is cancelled if the client closes the connection; its body must be read.

    Raises:
        ClientDisconnect: The client has left.
    """
    result: list[T] = []
    failed: list[Exception] = []
    async with create_task_group() as tasks:
        tasks.start_soon(_watch, request, tasks.cancel_scope)
        try:
            result.append(await work())
        except Exception as error:  # noqa: BLE001 - raised below, outside of the group that would wrap it
            failed.append(error)
        tasks.cancel_scope.cancel()
    if failed:
        raise failed[0]
    if not result:
        raise ClientDisconnect
    return result[0]


async def _watch(request: Request, scope: CancelScope) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
