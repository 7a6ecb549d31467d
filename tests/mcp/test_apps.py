"""Two servers with apps behind one gateway: both render in a host page, and neither reaches the other."""

import json
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Page, sync_playwright

from tests.mcp.gateways import entry
from tests.mcp.serving import HERE, NPM, served_over_http

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-sync"]
REVISION = "2026-07-28"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium, which `.ci/servers` installs on Debian"),
]


def ask(address: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Send a request to the gateway, and return its answer: `result` or `error`."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "host", "version": "1"},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": REVISION,
        "mcp-method": method,
    }
    named = params.get("name") or params.get("uri")
    if named:
        headers["mcp-name"] = str(named)
    answer = httpx2.post(address, json=message, headers=headers, timeout=30)
    text = answer.text
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        text = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")][-1]
    found: dict[str, Any] = json.loads(text)
    return {key: found[key] for key in ("result", "error") if key in found}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve two servers with apps, and return the address."""
    program = [sys.executable, str(HERE / "servers" / "apps.py")]
    page = {"read": [str(HERE / "apps")]}  # the servers run in a sandbox
    config = entry("weather", [*program, "weather", "bank"], **page) + entry(
        "bank", [*program, "bank", "weather"], **page
    )
    with served_over_http(tmp_path_factory.mktemp("apps"), config=config) as address:
        yield address


@pytest.fixture(scope="module")
def host(gateway: str) -> Iterator[Page]:
    """Open the host page with both apps."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page()

        def send(method: str, params: str) -> str:
            return json.dumps(ask(gateway, method, json.loads(params)))

        untyped: Any = page  # its type for the callback is partly unknown
        untyped.expose_function("sendToGateway", send)
        page.goto((HERE / "apps" / "host.html").as_uri())
        for name in ("weather", "bank"):
            uri = find_panel(gateway, name)["_meta"]["ui"]["resourceUri"]
            [contents] = ask(gateway, "resources/read", {"uri": uri})["result"]["contents"]
            page.evaluate(
                "([name, html, tool]) => show(name, html, tool)", [name, contents["text"], find_panel(gateway, name)]
            )
        yield page
        browser.close()


def find_panel(gateway: str, server: str) -> dict[str, Any]:
    """Return the definition of the tool that shows a server's app."""
    tools = ask(gateway, "tools/list", {})["result"]["tools"]
    [panel] = [tool for tool in tools if tool["name"] == f"mcp__{server}__panel"]
    return panel


def read_report(host: Page, name: str) -> dict[str, Any]:
    """Wait until an app has tried everything, and return what it got."""
    app = host.frame_locator(f"#{name}").frame_locator("iframe")
    report = app.locator("#report")
    report.filter(has_text="attacks").wait_for(timeout=60_000)
    assert app.locator("#title").inner_text() == name
    return json.loads(report.inner_text())


@pytest.mark.parametrize(("name", "other"), [("weather", "bank"), ("bank", "weather")])
def test_an_app_uses_its_own_server_by_its_own_names(host: Page, name: str, other: str) -> None:
    report = read_report(host, name)

    assert report["tool"] == "panel"
    assert f"secret_of of {name}" in json.dumps(report["called"])
    [note] = report["read"]["contents"]
    assert (note["uri"], note["text"]) == ("notes://private", f"note of {name}")
    assert report["page"] == 1
    assert report["tools"] == ["panel", "secret_of"]
    assert report["resources"] == ["ui://panel/main.html", "notes://private"]


@pytest.mark.parametrize(("name", "other"), [("weather", "bank"), ("bank", "weather")])
def test_an_app_reaches_nothing_of_the_other_server(host: Page, name: str, other: str) -> None:
    report = read_report(host, name)

    for method, outcome in report["attacks"]:
        shown = json.dumps(outcome)
        assert f"of {other}" not in shown, method
        assert shown.startswith('"error'), (method, shown)
    assert len(report["attacks"]) == 15


def test_the_host_ignores_what_an_app_sends_past_the_relay(host: Page) -> None:
    read_report(host, "weather")
    read_report(host, "bank")

    log: list[dict[str, Any]] = host.evaluate("log")

    assert [each for each in log if "ignored" in each]
    sent = [each for each in log if each.get("method") == "tools/call"]
    assert {each["params"]["name"] for each in sent} == {"mcp__weather__secret_of", "mcp__bank__secret_of"}


def test_an_app_of_the_official_library_connects_through_the_relay(host: Page, gateway: str) -> None:
    library = NPM / "@modelcontextprotocol" / "ext-apps" / "dist" / "src" / "app-with-deps.js"
    if not library.exists():
        pytest.skip("ext-apps is not in .npm-tools; `make test-all` installs it")
    from spindle.mcp.server.app_pages import AppReach, wrap_page

    code = library.read_text(encoding="utf-8")
    head, _, exports = code.rpartition("export{")
    [app] = [part.split(" as ")[0] for part in exports.rstrip("};\n ").split(",") if part.endswith(" as App")]
    use = f"""
      const app = new {app}({{name: "official", version: "1"}}, {{}});
      await app.connect();
      const found = await app.callServerTool({{name: "secret_of", arguments: {{}}}});
      document.body.append(JSON.stringify(found.content));
    """
    script = f"{head}\n{use}".replace("</script", "<\\/script")
    page = f'<!doctype html><meta charset="utf-8"><body><script type="module">{script}</script></body>'
    reach = AppReach(
        server="bank",
        tools={"secret_of": "mcp__bank__secret_of"},
        ui_prefix="ui://bank/",
        other_prefix="spindle://bank/",
    )
    host.evaluate(
        "([html, tool]) => show('official', html, tool)", [wrap_page(page, reach), find_panel(gateway, "bank")]
    )

    body = host.frame_locator("#official").frame_locator("iframe").locator("body")
    body.filter(has_text="secret_of of bank").wait_for(timeout=60_000)
