"""Pages of MCP Apps are wrapped, so that each is limited to its own server."""

import base64
import json
import re
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle import ToolFilter
from spindle.mcp.server.app_pages import AppReach, wrap_contents, wrap_page
from tests.fuzzing import examples
from tests.mcp.memory_upstreams import Answer, Upstream, memory_gateway

pytestmark = pytest.mark.anyio

REACH = AppReach(server="fs", tools={"get": "mcp__fs__get"}, ui_prefix="ui://fs/", other_prefix="spindle://fs/")
SETTINGS = re.compile(r"\n\}\)\((\{.*\})\);</script></body></html>\n\Z", re.DOTALL)


def read_settings(page: str) -> Any:
    """Return what a wrapped page passes to its relay."""
    found = SETTINGS.search(page)
    assert found is not None
    return json.loads(found[1])


@pytest.mark.fuzz
@settings(max_examples=examples(100))
@given(page=st.text() | st.sampled_from(["</script><script>x", "<!--<script>", "{}", "\u2028", "\\"]))
def test_no_page_leaves_its_place_in_the_relay(page: str) -> None:
    wrapped = wrap_page(page, REACH)

    assert read_settings(wrapped)["page"] == page.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    assert wrapped.count("<script") == wrapped.count("</script") == 1


def test_a_page_as_a_blob_is_wrapped_too_and_other_bytes_are_removed() -> None:
    def wrapped(data: bytes) -> str:
        blob = base64.b64encode(data).decode()
        contents = types.BlobResourceContents(uri="ui://fs/a", mime_type="text/html;profile=mcp-app", blob=blob)
        return wrap_contents(contents, REACH, "ui://a").blob

    assert read_settings(base64.b64decode(wrapped(b"<p>")).decode())["page"] == "<p>"
    assert wrapped(b"\xff\xfe") == ""


def test_other_contents_are_unchanged() -> None:
    text = types.TextResourceContents(uri="spindle://fs/file:///a.html", mime_type="text/html", text="<p>")
    script = types.TextResourceContents(uri="ui://fs/a.js", mime_type="text/javascript", text="x")

    assert wrap_contents(text, REACH, "file:///a.html") is text
    assert wrap_contents(script, REACH, "ui://a.js") is script


def app_server() -> Upstream:
    return Upstream(
        prompts={"greet": "Hello"},
        resources={"ui://app/main": "<p>mine</p>", "file:///a.txt": "A"},
        mime_types={"ui://app/main": "text/html;profile=mcp-app"},
    )


async def read_page(monkeypatch: Any, uri: str, **options: Any) -> str:
    upstreams = {"fs": app_server(), "other": app_server()}
    async with memory_gateway(monkeypatch, upstreams, **options) as gateway, gateway.client() as client:
        [contents] = (await client.read_resource(uri)).contents
    assert isinstance(contents, types.TextResourceContents)
    return contents.text


async def test_an_app_gets_the_names_of_its_own_server_only(monkeypatch: Any) -> None:
    reach = read_settings(await read_page(monkeypatch, "ui://fs/app/main"))

    assert reach["page"] == "<p>mine</p>"
    assert reach["prefixes"] == {"ui": "ui://fs/", "other": "spindle://fs/"}
    assert set(reach["tools"].values()) == {f"mcp__fs__{name}" for name in reach["tools"]}
    assert reach["prompts"] == {"greet": "mcp__fs__greet"}


@pytest.mark.slow
@pytest.mark.parametrize("stated", ["file:///page", "UI://app/main", "ui:///app/main", "x"])
@pytest.mark.parametrize("kind", ["text/html;profile=mcp-app", "application/xhtml+xml", None])
async def test_a_page_is_limited_whatever_uri_its_server_writes_into_it(
    stated: str, kind: str | None, monkeypatch: Any
) -> None:
    async def give(_params: Any) -> types.ReadResourceResult:
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=stated, mime_type=kind, text="<p>free</p>")]
        )

    upstream = Upstream(resources={"ui://app/main": Answer(give)})
    async with memory_gateway(monkeypatch, {"fs": upstream}) as gateway, gateway.client() as client:
        [contents] = (await client.read_resource("ui://fs/app/main")).contents

    assert isinstance(contents, types.TextResourceContents)
    assert read_settings(contents.text)["page"] == "<p>free</p>"


async def test_the_filter_of_a_client_limits_its_apps(monkeypatch: Any) -> None:
    allowed = ToolFilter(allowed_mcp_tools={"fs": []}, allowed_prompts=[])

    reach = read_settings(await read_page(monkeypatch, "ui://fs/app/main", filter=allowed))

    assert (reach["tools"], reach["prompts"]) == ({}, {})


async def test_a_server_without_a_prefix_is_limited_to_what_it_lists(monkeypatch: Any) -> None:
    reach = read_settings(await read_page(monkeypatch, "ui://app/main", specs={"fs": {"prefix": False}}))

    assert reach["prefixes"] is None
    assert sorted(set(reach["uris"])) == ["file:///a.txt", "ui://app/main"]


async def test_the_app_of_a_trusted_server_without_a_prefix_is_passed_as_it_is(monkeypatch: Any) -> None:
    page = await read_page(monkeypatch, "ui://app/main", specs={"fs": {"prefix": False, "trusted": True}})

    assert page == "<p>mine</p>"
