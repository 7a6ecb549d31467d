"""What an upstream tool's definition says beside its name, description and schemas: hints, icons, `_meta`, execution.

It is kept in the tool's `meta` under `mcp`, from where the server lists it again. Read `collect_extras`.
"""

import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from spindle.json_types import JsonObject
from spindle.mcp.client.contents import rewrite_meta
from spindle.mcp.client.resource_uris import UriMapping

if TYPE_CHECKING:
    from mcp_types import Tool as ForeignTool

MAX_META_CHARS: Final = 50_000
MAX_ICONS: Final = 8
MAX_ICON_CHARS: Final = 100_000
"""An icon may be a `data:` address."""
_ICON_SCHEMES: Final = ("https", "http", "data")


def collect_extras(foreign: "ForeignTool", uris: UriMapping) -> JsonObject:
    """Return the hints, icons, `_meta` and execution settings of a definition, within limits.

    The resource of an app that `_meta` names has the address under which clients read it.
    """
    extras: JsonObject = {}
    if foreign.annotations is not None:
        extras["annotations"] = _dump(foreign.annotations)
    icons = [_dump(icon) for icon in foreign.icons or () if _is_usable(icon)][:MAX_ICONS]
    if icons:
        extras["icons"] = icons
    meta = _filter_meta(foreign.meta)
    if meta:
        extras["meta"] = rewrite_meta(meta, uris.to_gateway)
    if foreign.execution is not None:
        extras["execution"] = _dump(foreign.execution)
    return extras


def _dump(model: Any) -> JsonObject:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def _is_usable(icon: Any) -> bool:
    src = str(icon.src)
    try:
        return len(src) <= MAX_ICON_CHARS and urlsplit(src).scheme in _ICON_SCHEMES
    except ValueError:
        return False


def _filter_meta(meta: Any) -> JsonObject:
    """Return a definition's `_meta` without keys that only Spindle sets; empty if it is too large."""
    kept: JsonObject = {key: value for key, value in dict(meta or {}).items() if not key.startswith("spindle/")}
    try:
        is_fine = len(json.dumps(kept)) <= MAX_META_CHARS
    except (TypeError, ValueError, RecursionError):
        return {}
    return kept if is_fine else {}
