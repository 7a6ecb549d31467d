"""Definitions of prompts, resources and resource templates: as a server lists them, and as clients see them."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from spindle.json_types import JsonObject
from spindle.mcp.client.contents import ContentRules, clean_mime_type, clean_texts, is_plain_uri
from spindle.mcp.client.definition_extras import clean_icons
from spindle.mcp.client.resource_uris import UI
from spindle.mcp.client.tools import full_name, is_reserved_name, quote_name
from spindle.mcp.spec import ServerSpec
from spindle.text import shorten
from spindle.tools.filters import FeatureKind
from spindle.trust.sanitise import sanitise

if TYPE_CHECKING:
    from mcp_types import Prompt, Resource, ResourceTemplate

    Definition: TypeAlias = Prompt | Resource | ResourceTemplate

Kind: TypeAlias = Literal["prompt", "resource", "template", "app"]
"""What a definition describes; an `app` is a resource with a `ui://` URI."""

MAX_DEFINITION_CHARS: Final = 100_000
_MAX_DESCRIPTION: Final = 10_000
_MAX_NAME: Final = 200
_MAX_ARGUMENTS: Final = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Feature:
    """A prompt, resource or resource template of a server."""

    kind: Kind
    server: str
    own_name: str
    """The server's own name, URI or URI template."""
    name: str
    """The name, URI or URI template that clients use."""
    listed: JsonObject
    """The definition as its server listed it."""
    shown: Any
    """The definition as clients see it, of `mcp_types`."""

    @property
    def filter_kind(self) -> FeatureKind:
        """The kind that filters distinguish."""
        return "prompt" if self.kind == "prompt" else "resource"


def build_feature(spec: ServerSpec, rules: ContentRules, definition: "Definition") -> Feature | str:
    """Build a feature from a server's definition, or return why it cannot be offered."""
    kind, own = get_identity(definition)
    listed: JsonObject = definition.model_dump(mode="json", by_alias=True, exclude_none=True)
    problem = _find_problem(spec, rules, definition, listed)
    if problem is not None:
        what = "resource template" if kind == "template" else kind
        return f"its {what} {quote_name(rules.redactor.redact(own))} is left out: {problem}"
    if kind == "prompt":
        name, shown = full_name(spec, own), _show_prompt(definition, rules)
        shown = shown.model_copy(update={"name": name})
    else:
        name = rules.uris.to_gateway(own)
        field = "uri_template" if kind == "template" else "uri"
        shown = _show_texts(definition, rules, ("name", "title", "description"))
        shown = shown.model_copy(
            update={field: name, "mime_type": clean_mime_type(getattr(definition, "mime_type", None))}
        )
    return Feature(kind=kind, server=spec.name, own_name=own, name=name, listed=listed, shown=shown)


def _find_problem(spec: ServerSpec, rules: ContentRules, definition: Any, listed: JsonObject) -> str | None:
    kind, own = get_identity(definition)
    if len(json.dumps(listed)) > MAX_DEFINITION_CHARS:
        return f"its definition is larger than {MAX_DEFINITION_CHARS} characters"
    if rules.redactor.redact(own) != own:
        return "its name contains a secret of this configuration"
    if kind == "prompt":
        return _find_prompt_problem(definition, is_prefixed=spec.prefix)
    return None if is_plain_uri(own) else "its URI is too long, or contains invisible characters or model tokens"


def get_identity(definition: Any) -> tuple[Kind, str]:
    """Return the kind of a definition and the server's own name of it."""
    template = getattr(definition, "uri_template", None)
    if template is not None:
        return "template", template
    uri = getattr(definition, "uri", None)
    if uri is not None:
        return "app" if uri.startswith(UI) else "resource", uri
    return "prompt", definition.name


def _find_prompt_problem(prompt: Any, *, is_prefixed: bool) -> str | None:
    arguments = prompt.arguments or ()
    for name in (prompt.name, *(each.name for each in arguments)):
        if not name or len(name) > _MAX_NAME or not name.isprintable() or sanitise(name) != name:
            return f"{quote_name(name)} is empty, too long, or has invisible characters or model tokens"
    if len(arguments) > _MAX_ARGUMENTS:
        return f"it has more than {_MAX_ARGUMENTS} arguments"
    if not is_prefixed and is_reserved_name(prompt.name):
        return "without a prefix, no name may start like that"
    return None


def _show_prompt(prompt: Any, rules: ContentRules) -> Any:
    clean = _cleaner(rules)
    arguments = prompt.arguments and [clean_texts(each, ("title", "description"), clean) for each in prompt.arguments]
    return _show_texts(prompt, rules, ("title", "description")).model_copy(update={"arguments": arguments})


def _show_texts(definition: Any, rules: ContentRules, names: tuple[str, ...]) -> Any:
    shown = clean_texts(definition, names, _cleaner(rules))
    update: JsonObject = {"meta": rules.clean_meta(definition.meta), "icons": _show_icons(definition)}
    annotations = getattr(definition, "annotations", None)
    if annotations is not None:
        update["annotations"] = clean_texts(annotations, ("last_modified",), _cleaner(rules))
    return shown.model_copy(update=update)


def _show_icons(definition: Any) -> Any:
    return clean_icons(definition.icons or ()) or None


def _cleaner(rules: ContentRules) -> Callable[[str], str]:
    def clean(text: str) -> str:
        masked = rules.redactor.redact(sanitise(rules.redactor.redact(text)))
        return shorten(masked, _MAX_DESCRIPTION)

    return clean
