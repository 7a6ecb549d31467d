"""Pages of MCP Apps: each is wrapped in a relay that limits it to the tools and resources of its own server.

To a host the gateway is one server, so an app could otherwise use everything behind it. The relay also translates the
names and URIs of the app's server into those of the gateway.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import mcp_types as types

from spindle.json_types import JsonObject
from spindle.mcp.client.catalog import FeatureTarget, UpstreamCatalog
from spindle.mcp.client.resource_uris import UI
from spindle.tools.filters import ToolFilter

_PAGE: Final = """<!doctype html>
<html><head><meta charset="utf-8">
<style>html, body {{ margin: 0; height: 100%; background: transparent }}
iframe {{ display: block; width: 100%; height: 100%; border: 0 }}</style></head>
<body><script>{relay}({reach});</script></body></html>
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class AppReach:
    """What an app may use: the names and URIs of its own server, as the app and as the host write them."""

    server: str
    tools: Mapping[str, str]
    """Name at the server → name at the gateway."""
    prompts: Mapping[str, str] = field(default_factory=dict[str, str])
    ui_prefix: str | None = None
    """What the gateway puts in the place of `ui://`; `None` if URIs stay as they are."""
    other_prefix: str | None = None
    """What the gateway puts before other URIs."""
    uris: Sequence[str] = ()
    """The URIs of the server, where they stay as they are."""
    starts: Sequence[str] = ()
    """The texts before the first variable of its templates, likewise."""

    def to_json(self) -> JsonObject:
        """Return the settings of the relay."""
        prefixes = None if self.ui_prefix is None else {"ui": self.ui_prefix, "other": self.other_prefix}
        return {
            "server": self.server,
            "tools": dict(self.tools),
            "prompts": dict(self.prompts),
            "prefixes": prefixes,
            "uris": list(self.uris),
            "starts": list(self.starts),
        }


async def build_reach(
    catalog: UpstreamCatalog, target: FeatureTarget, filter: ToolFilter | None, tools: Mapping[str, str]
) -> AppReach:
    """Return what an app of the target's server may use, under a filter; `tools` are those that the client sees."""
    name = target.server.spec.name
    prompts = {each.own_name: each.name for each in await catalog.list("prompts", filter) if each.server == name}
    if target.server.spec.prefix:
        return AppReach(
            server=name,
            tools=tools,
            prompts=prompts,
            ui_prefix=target.server.uris.to_gateway(UI),
            other_prefix=target.server.uris.to_gateway(""),
        )
    resources = [each.name for each in await catalog.list("resources", filter) if each.server == name]
    templates = [each.name for each in await catalog.list("templates", filter) if each.server == name]
    return AppReach(
        server=name,
        tools=tools,
        prompts=prompts,
        uris=[*resources, target.own_name],
        starts=[start for each in templates if (start := each.partition("{")[0])],
    )


def is_app_page(contents: Any, uri: str) -> bool:
    """Return whether contents that were read under a URI are the page of an app.

    A host takes the contents of the URI that it asked for as the page, whatever URI the server writes into them.
    """
    kind = (contents.mime_type or "").partition(";")[0].strip().lower()
    is_app = any(each[: len(UI)].lower() == UI for each in (uri, contents.uri))
    return is_app and (not kind or "html" in kind)


def wrap_contents(contents: Any, reach: AppReach, uri: str) -> Any:
    """Return contents with the page of an app wrapped; others are returned as they are."""
    if not is_app_page(contents, uri):
        return contents
    if isinstance(contents, types.TextResourceContents):
        return contents.model_copy(update={"text": wrap_page(contents.text, reach)})
    try:
        page = base64.b64decode(contents.blob, validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return contents.model_copy(update={"blob": ""})  # a page that is not text could not be limited
    return contents.model_copy(update={"blob": base64.b64encode(wrap_page(page, reach).encode()).decode()})


def wrap_page(page: str, reach: AppReach) -> str:
    """Return a page that shows an app in a sandboxed frame and relays its messages."""
    settings = json.dumps({**reach.to_json(), "title": reach.server, "page": page})
    # Nothing in the settings may end the script.
    return _PAGE.format(relay=_read_relay(), reach=settings.replace("<", "\\u003c"))


@lru_cache(maxsize=1)
def _read_relay() -> str:
    return Path(__file__).with_name("app_relay.js").read_text(encoding="utf-8").rstrip().removesuffix(";")
