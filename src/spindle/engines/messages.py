"""What crosses between callers and workers: requests and results as small JSON, anything larger as a spool reference.

Secret arguments are sealed with the state key. A message has a format number; a reader refuses one it does not know.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from spindle.artifacts.artifact import Artifact, await_if_needed
from spindle.artifacts.json_artifact import JsonArtifact
from spindle.artifacts.markdown.artifact import MarkdownArtifact
from spindle.artifacts.spool import Spool
from spindle.artifacts.table_artifact import TableArtifact
from spindle.calls import ArtifactLike, Err, ErrCode, Ok, SingleMedia
from spindle.errors import EngineMessageError, HandlerFailedError
from spindle.execution.transport import Request
from spindle.json_types import JsonObject, JsonValue, is_object
from spindle.media import Media

if TYPE_CHECKING:
    from spindle.execution.state_key import StateKey

FORMAT = 1
"""The format of messages; a reader refuses any other."""
MAX_INLINE_BYTES = 65_536
"""A larger message crosses as a spool reference, whatever the budget of the call."""

_ARTIFACTS: Mapping[str, type[Artifact]] = {
    "text": Artifact,
    "json": JsonArtifact,
    "markdown": MarkdownArtifact,
    "table": TableArtifact,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageCodec:
    """Writes and reads the messages of calls; caller and worker need the same spool and the same state key."""

    spool: Spool | None = None
    key: "StateKey | None" = None

    async def encode_request(self, request: Request, call_id: str) -> JsonObject:
        """Build the message of a request.

        Raises:
            EngineMessageError: It has secret arguments without a state key, or is too large to be sent without a spool.
        """
        facts: JsonObject = {each.name: getattr(request, each.name) for each in fields(Request) if each.name != "args"}
        args = json.dumps(request.args, separators=(",", ":"))
        message: JsonObject = {"format": FORMAT, "request": facts | {"secret_fields": list(request.secret_fields)}}
        if any(name in request.args for name in request.secret_fields):
            if self.key is None:
                text = "Secret arguments cross to a worker only sealed: caller and worker need the same state key."
                raise EngineMessageError(text, tool=request.tool)
            sealed = self.key.seal(args.encode(), bound=_bind(request.idempotency_key))
            return message | {"sealed": await self._store(b64encode(sealed).decode(), f"{call_id}/args", request)}
        return message | {"args": await self._store(args, f"{call_id}/args", request)}

    async def decode_request(self, message: JsonObject) -> Request:
        """Rebuild a request.

        Raises:
            EngineMessageError: The message cannot be read here.
        """
        _check_format(message)
        facts: JsonObject = message["request"]
        known = {each.name for each in fields(Request)}
        if "sealed" in message:
            sealed = b64decode(await self._load(message["sealed"]))
            if self.key is None:
                raise EngineMessageError("The arguments are sealed, and this worker has no state key.")
            args = self.key.unseal(sealed, bound=_bind(facts["idempotency_key"])).decode()
        else:
            args = await self._load(message["args"])
        return Request(args=json.loads(args), **{name: value for name, value in facts.items() if name in known})

    async def encode_result(self, result: Ok | Err, request: Request, call_id: str) -> JsonObject:
        """Build the message of a result; text over the call's budget goes to the spool.

        Raises:
            EngineMessageError: The result is too large, or has media or an artifact, and there is no spool.
        """
        if isinstance(result, Err):
            body: JsonObject = {name: getattr(result, name) for name in ("code", "error", "field", "retryable", "by")}
            if result.cause is not None:
                body["cause"] = type(result.cause).__name__
        else:
            body = {
                "value": result.value,
                "structured": result.structured,
                "wire": result.wire,
                "cost_usd": result.cost_usd,
                "trusted": result.trusted,
                "label": result.label,
                "media": [
                    await self._store_media(each, f"{call_id}/media/{number}", request)
                    for number, each in enumerate(result.media)
                ],
                "is_single_media": isinstance(result.media, SingleMedia),
                "artifact": await self._store_artifact(result.artifact, call_id, request),
            }
        text = _dump(body)
        budget = request.result_budget_chars
        is_over = isinstance(result, Ok) and budget is not None and len(result.value) > budget
        stored = await self._store(text, f"{call_id}/result", request, is_over=is_over)
        return {"format": FORMAT, "ok": result.ok, "body": stored}

    async def decode_result(self, message: JsonObject) -> Ok | Err:
        """Rebuild a result.

        Raises:
            EngineMessageError: The message cannot be read here.
        """
        _check_format(message)
        body: JsonObject = json.loads(await self._load(message["body"]))
        if message["ok"] is not True:
            return _build_err(body)
        media = [await self._open_media(each) for each in body["media"]]
        return Ok(
            body["value"],
            structured=body["structured"],
            wire=body.get("wire"),
            media=SingleMedia(media) if body["is_single_media"] else tuple(media),
            artifact=await self._open_artifact(body["artifact"]),
            cost_usd=body["cost_usd"],
            trusted=body["trusted"],
            label=body.get("label"),
        )

    async def _store(self, text: str, place: str, request: Request, *, is_over: bool = False) -> JsonObject:
        # Without a spool, what is over the budget but not large still crosses; the caller truncates it.
        if len(text) <= MAX_INLINE_BYTES and not (is_over and self.spool is not None):
            return {"inline": text}
        data = text.encode()
        await self._require_spool().write(place, data, turn_id=request.turn_id)
        return {"spooled": place, "bytes": len(data), "sha256": sha256(data).hexdigest()}

    async def _load(self, stored: JsonValue) -> str:
        if not is_object(stored) or ("inline" not in stored and "spooled" not in stored):
            raise EngineMessageError("The message of a call is damaged.")
        if "inline" in stored:
            return stored["inline"]
        data = await self._read(stored["spooled"])
        if sha256(data).hexdigest() != stored["sha256"]:
            raise EngineMessageError("The spool entry of a call was changed.")
        return data.decode()

    async def _read(self, place: str) -> bytes:
        return await (await self._open(place)).read_all()

    async def _open(self, place: str) -> Any:
        reader = await self._require_spool().read(place)
        if reader is None:
            text = f"The spool entry {place!r} is not here: callers and workers must share one spool."
            raise EngineMessageError(text)
        return reader

    def _require_spool(self) -> Spool:
        if self.spool is None:
            text = "The content is too large for the engine: callers and workers need one spool that they share."
            raise EngineMessageError(text)
        return self.spool

    async def _store_media(self, media: Media, place: str, request: Request) -> JsonObject:
        await self._require_spool().write(place, media.stream(), turn_id=request.turn_id)
        stash = {name: {"value": each.value, "trust_tier": each.trust_tier} for name, each in media.stash.items()}
        return {**media.to_dict(), "stash": stash, "spooled": place}

    async def _open_media(self, stored: JsonObject) -> Media:
        labels = {name: value for name, value in stored.items() if name != "spooled"}
        return Media.from_reader(await self._open(stored["spooled"]), **labels)

    async def _store_artifact(self, artifact: ArtifactLike | None, call_id: str, request: Request) -> JsonObject | None:
        if artifact is None:
            return None
        place = f"{call_id}/artifact"
        if isinstance(artifact, Artifact):
            content: str | bytes = await await_if_needed(artifact.reader.read_all())
        else:
            content = await artifact.as_text()
        await self._require_spool().write(place, content, turn_id=request.turn_id)
        kind = next((name for name, each in _ARTIFACTS.items() if type(artifact) is each), "text")
        return {"kind": kind, "spooled": place}

    async def _open_artifact(self, stored: JsonValue) -> Artifact | None:
        if not is_object(stored):
            return None
        return _ARTIFACTS.get(stored["kind"], Artifact)(await self._open(stored["spooled"]))


def _dump(body: JsonObject) -> str:
    try:
        return json.dumps(body, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        # A handler's `structured` may not be JSON; the text is what the model sees.
        return json.dumps(body | {"structured": None, "wire": None}, separators=(",", ":"))


def _bind(idempotency_key: str) -> str:
    return f"engine call {idempotency_key}"


def _check_format(message: JsonObject) -> None:
    if not is_object(message) or message.get("format") != FORMAT:
        raise EngineMessageError(f"The message of a call has another format than {FORMAT}; use the same version.")


def _build_err(body: JsonObject) -> Err:
    name = body.get("cause")
    # The exception itself stays on the worker; its class is enough to know that a retry may help.
    cause = None if name is None else HandlerFailedError(f"{name} on the worker", class_name=name)
    return Err(
        cast("ErrCode", body["code"]),
        body["error"],
        field=body["field"],
        retryable=body["retryable"],
        cause=cause,
        by="spindle" if body["by"] == "spindle" else "tool",
    )
