"""What an upstream tool's definition says beside its name, description and schemas: hints, icons, `_meta`, execution.

It is kept in the tool's `meta` under `mcp`, from where the server lists it again. Read `collect_extras`.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from spindle.bridges.structured_content import map_strings
from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.mcp.client.contents import rewrite_meta
from spindle.mcp.client.resource_uris import UriMapping
from spindle.trust.sanitise import sanitise

if TYPE_CHECKING:
    from mcp_types import Tool as ForeignTool

MAX_META_CHARS: Final = 50_000
MAX_ICONS: Final = 8
MAX_ICON_CHARS: Final = 100_000
"""An icon may be a `data:` address."""
MAX_ICON_SIZES: Final = 20
MAX_ICON_TEXT: Final = 100
MAX_META_DEPTH: Final = 50
_IMAGE: Final = "data:image/"
_ICON_SCHEMES: Final = ("https", "http", "data")


def collect_extras(foreign: "ForeignTool", uris: UriMapping) -> JsonObject:
    """Return the hints, icons, `_meta` and execution settings of a definition, within limits.

    The resource of an app that `_meta` names has the address under which clients read it.
    """
    extras: JsonObject = {}
    if foreign.annotations is not None:
        extras["annotations"] = _dump(foreign.annotations)
    icons = clean_icons(foreign.icons or ())
    if icons:
        extras["icons"] = [_dump(icon) for icon in icons]
    meta = clean_definition_meta(foreign.meta)
    if meta:
        extras["meta"] = rewrite_meta(meta, uris.to_gateway)
    if foreign.execution is not None:
        extras["execution"] = _dump(foreign.execution)
    return extras


def _dump(model: Any) -> JsonObject:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def clean_icons(icons: Sequence[Any]) -> list[Any]:
    """Return the icons of a definition that clients may get: images at plain addresses, without any other text."""
    return [icon for icon in icons if _is_usable(icon)][:MAX_ICONS]


def _is_usable(icon: Any) -> bool:
    src, others = str(icon.src), [icon.mime_type or "", *(icon.sizes or ())]
    if len(src) > MAX_ICON_CHARS or len(others) > MAX_ICON_SIZES or any(len(each) > MAX_ICON_TEXT for each in others):
        return False
    if not all(each.isascii() and each.isprintable() and sanitise(each) == each for each in (src, *others)):
        return False
    try:
        scheme = urlsplit(src).scheme
    except ValueError:
        return False
    return scheme in _ICON_SCHEMES and (scheme != "data" or src[: len(_IMAGE)].lower() == _IMAGE)


def clean_definition_meta(meta: Any) -> JsonObject:
    """Return a definition's `_meta`, sanitised and without keys that only Spindle sets; empty if it is too large."""
    kept: JsonObject = {key: value for key, value in dict(meta or {}).items() if not key.startswith("spindle/")}
    try:
        is_fine = len(json.dumps(kept)) <= MAX_META_CHARS and _get_depth(kept) <= MAX_META_DEPTH
        clean: JsonObject = map_strings(kept, sanitise) if is_fine else {}
    except (TypeError, ValueError, RecursionError):
        return {}
    # A hidden character may have kept a key from being recognised.
    return {key: value for key, value in clean.items() if not key.startswith("spindle/")}


def _get_depth(value: JsonValue) -> int:
    """Return how deeply a value is nested, at most one level beyond the limit."""
    depth, level = 0, [value]
    while level and depth <= MAX_META_DEPTH:
        depth += 1
        inner = [each.values() if is_object(each) else each for each in level if is_object(each) or is_array(each)]
        level = [part for each in inner for part in each]
    return depth
