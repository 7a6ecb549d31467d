"""What a server sends about prompts and resources, made fit for clients of the gateway.

URIs are mapped so that a client can read them back, secrets are masked, text of untrusted servers is sanitised and
labelled. Nothing is fenced: programs use the contents, and JSON and HTML must stay valid.
"""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from spindle.capabilities.secrets.secret import Redactor
from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.mcp.client.resource_uris import MAX_URI_CHARS, UI, UriMapping
from spindle.text import to_printable
from spindle.trust.sanitise import sanitise

if TYPE_CHECKING:
    from mcp_types import BlobResourceContents, CallToolResult, GetPromptResult, ReadResourceResult
    from mcp_types import TextResourceContents as TextContents

    Contents = TextContents | BlobResourceContents

TRUST_KEY: Final = "spindle/trust"
"""The key of `_meta` that labels contents of untrusted servers."""
_OWN_KEYS: Final = "spindle/"
_PROTOCOL_KEYS: Final = "io.modelcontextprotocol/"
_MAX_META_CHARS: Final = 32_000
_MAX_META_DEPTH: Final = 20
_MAX_MIME_CHARS: Final = 200
_UI_RESOURCE: Final = "ui/resourceUri"
"""The older form of `_meta.ui.resourceUri`."""

Model = TypeVar("Model", bound=Any)


@dataclass(frozen=True, kw_only=True, slots=True)
class ContentRules:
    """How what one server sends is changed."""

    uris: UriMapping
    redactor: Redactor
    is_trusted: bool

    def clean_text(self, text: str) -> str:
        """Mask secrets, and sanitise the text of an untrusted server."""
        masked = self.redactor.redact(text)
        return masked if self.is_trusted else self.redactor.redact(sanitise(masked))

    def clean_uri(self, uri: str) -> str:
        """Return the URI that clients use; what cannot be read back is only made printable."""
        masked = self.redactor.redact(uri)
        if masked != uri or not is_plain_uri(uri):
            return to_printable(sanitise(masked), MAX_URI_CHARS)
        return self.uris.to_gateway(uri)

    def clean_meta(self, meta: JsonObject | None, *, label: bool = False) -> JsonObject | None:
        """Return the metadata without keys of ours, URIs of apps mapped; with `label`, untrusted contents say so."""
        kept = dict[str, JsonValue]()
        if meta and _is_small(meta):
            kept = {
                clean: self._clean_value(value, 0)
                for key, value in meta.items()
                if not (clean := self._clean_key(key)).startswith(_OWN_KEYS)
            }
            kept = rewrite_meta(kept, self.clean_uri)
        if label and not self.is_trusted:
            kept[TRUST_KEY] = "untrusted"
        return kept or None

    def _clean_value(self, value: JsonValue, depth: int) -> JsonValue:
        if isinstance(value, str):
            return self.redactor.redact(sanitise(self.redactor.redact(value)))
        if depth > _MAX_META_DEPTH:
            return None
        if is_array(value):
            return [self._clean_value(each, depth + 1) for each in value]
        if is_object(value):
            return {self._clean_key(key): self._clean_value(each, depth + 1) for key, each in value.items()}
        return value

    def _clean_key(self, key: str) -> str:
        return self.redactor.redact(sanitise(self.redactor.redact(key)))

    def clean_contents(self, contents: "Contents", *, is_app: bool = False) -> "Contents":
        """Return the contents of a resource as clients get them; `is_app` if an app was asked for.

        The URI in the contents does not decide: its server wrote it.
        """
        own = contents.uri
        mime_type = clean_mime_type(contents.mime_type)
        update: JsonObject = {
            "uri": self.clean_uri(own),
            "mime_type": mime_type,
            "meta": self.clean_meta(contents.meta, label=True),
        }
        text = getattr(contents, "text", None)
        if isinstance(text, str):
            # The page of an app runs in a sandbox and is not shown to a model; tags such as <mask> must stay.
            is_page = is_app and (mime_type or "").startswith("text/html")
            update["text"] = self.redactor.redact(text) if is_page else self.clean_text(text)
        else:
            update["blob"] = self._clean_blob(getattr(contents, "blob", ""))
        return contents.model_copy(update=update)

    def _clean_blob(self, blob: str) -> str:
        """Return valid base64 without secrets; `validate` alone would let a client fail on it."""
        try:
            data = base64.b64decode(blob, validate=True)
        except (binascii.Error, ValueError):
            return ""
        masked = self.redactor.redact_bytes(data) if self.redactor else data
        return blob if masked == data else base64.b64encode(masked).decode()

    def clean_block(self, block: Any) -> Any:
        """Return a content block of a prompt as clients get it."""
        update: JsonObject = {"meta": self.clean_meta(block.meta, label=True)}
        match block.type:
            case "text":
                update["text"] = self.clean_text(block.text)
            case "resource":
                update["resource"] = self.clean_contents(block.resource)
            case "resource_link":
                for name in ("name", "title", "description"):
                    value = getattr(block, name)
                    update[name] = None if value is None else self.clean_text(value)
                update["uri"] = self.clean_uri(block.uri)
                update["mime_type"] = clean_mime_type(block.mime_type)
            case _:
                update["data"] = self._clean_blob(block.data)
                update["mime_type"] = clean_mime_type(block.mime_type)
        return block.model_copy(update=update)

    def clean_read(self, result: "ReadResourceResult", uri: str) -> "ReadResourceResult":
        """Return the answer to a read of a URI of the server as clients get it."""
        contents = [self.clean_contents(each, is_app=uri.startswith(UI)) for each in result.contents]
        # What a client may read depends on its profile, so that a shared cache must not keep it.
        update: JsonObject = {"cache_scope": "private", "meta": self._clean_result_meta(result.meta)}
        return result.model_copy(update={"contents": contents, **update})

    def _clean_result_meta(self, meta: JsonObject | None) -> JsonObject | None:
        """Clean the metadata of a result; keys of the protocol are about the connection to the server."""
        kept = {key: value for key, value in (meta or {}).items() if not key.startswith(_PROTOCOL_KEYS)}
        return self.clean_meta(kept, label=True)

    def clean_prompt(self, result: "GetPromptResult") -> "GetPromptResult":
        """Return a prompt as clients get it."""
        messages = [each.model_copy(update={"content": self.clean_block(each.content)}) for each in result.messages]
        text = None if result.description is None else self.clean_text(result.description)
        meta = self._clean_result_meta(result.meta)
        return result.model_copy(update={"messages": messages, "description": text, "meta": meta})


def clean_mime_type(text: str | None) -> str | None:
    """Return a type as clients get it."""
    return None if text is None else to_printable(sanitise(text), _MAX_MIME_CHARS)


def is_plain_uri(uri: str) -> bool:
    """Return whether a URI or template can be shown and sent back: printable, not empty, not too long."""
    return 0 < len(uri) <= MAX_URI_CHARS and uri.isprintable() and sanitise(uri) == uri


def rewrite_meta(meta: JsonObject, map_uri: Callable[[str], str]) -> JsonObject:
    """Return the metadata with the URI of an app's resource mapped; of a tool's definition, result or resource."""
    changed = dict(meta)
    ui = changed.get("ui")
    if is_object(ui) and isinstance(ui.get("resourceUri"), str):
        changed["ui"] = {**ui, "resourceUri": map_uri(ui["resourceUri"])}
    older = changed.get(_UI_RESOURCE)
    if isinstance(older, str):
        changed[_UI_RESOURCE] = map_uri(older)
    return changed


def map_result_uris(result: "CallToolResult", uris: UriMapping) -> "CallToolResult":
    """Return a tool's result with the URIs of resources in it mapped, so that a client can read them back."""
    if not uris.is_prefixed:
        return result
    changed: JsonObject = {"content": [_map_block_uri(block, uris) for block in result.content]}
    if result.meta:
        changed["meta"] = rewrite_meta(dict(result.meta), uris.to_gateway)
    return result.model_copy(update=changed)


def _map_block_uri(block: Any, uris: UriMapping) -> Any:
    if block.type == "resource_link":
        return block.model_copy(update={"uri": uris.to_gateway(block.uri)})
    if block.type == "resource":
        inner = block.resource.model_copy(update={"uri": uris.to_gateway(block.resource.uri)})
        return block.model_copy(update={"resource": inner})
    return block


def _is_small(meta: JsonObject) -> bool:
    try:
        return len(json.dumps(meta)) <= _MAX_META_CHARS
    except (TypeError, ValueError, RecursionError):
        return False


def clean_texts(model: Model, names: Sequence[str], clean: Callable[[str], str]) -> Model:
    """Return a model with some of its optional text fields cleaned."""
    values = {name: getattr(model, name) for name in names}
    return model.model_copy(update={name: clean(text) for name, text in values.items() if isinstance(text, str)})
