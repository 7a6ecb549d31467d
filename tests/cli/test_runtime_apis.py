"""The APIs of a configuration."""

import json
from pathlib import Path

import pytest

from spindle import Call, Ok, ToolContext
from spindle.cli import load_config, open_runtime
from spindle.cli.config.loader import parse_config
from spindle.cli.config.local_code import find_local_code
from spindle.errors import InvalidConfigError
from spindle.events import Events
from tests.capabilities.loopback import Request, answer, serving
from tests.kit.openapi.apis import SHOP, reply

pytestmark = pytest.mark.anyio

GRANTS = '[reach]\nhosts = ["127.0.0.1"]\nprivate_addresses = ["127.0.0.0/8"]\n'


def configure(tmp_path: Path, entry: str, grants: str = GRANTS) -> Path:
    path = tmp_path / "spindle.toml"
    path.write_text(f"[openapi.servers.shop]\n{entry}\n{grants}", encoding="utf-8")
    return path


async def registered(path: Path, tmp_path: Path) -> tuple[list[str], list[str]]:
    """Return the names of the tools, and the warnings."""
    events, warnings = Events(), list[str]()
    events.on("warning", lambda warning: warnings.append(warning.message))
    config = load_config(path, state=tmp_path / "state", environ={"HOME": str(tmp_path)})
    async with open_runtime(config, events=events) as runtime:
        return [tool.name for tool in runtime.registry], warnings


async def test_the_operations_of_a_file_are_called_with_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_KEY", "k-7")
    with serving(reply({"id": 4})) as server:
        (tmp_path / "shop.json").write_text(json.dumps(SHOP), encoding="utf-8")
        entry = (
            f'file = "shop.json"\nbase_url = "{server.url}/v2"\nsecrets = {{key = "SHOP_KEY"}}\nexclude = ["delete*"]'
        )
        config = load_config(configure(tmp_path, entry), state=tmp_path / "state")
        async with open_runtime(config) as runtime:
            names = [tool.name for tool in runtime.registry]
            call = Call("c1", "openapi__shop__addPet", {"body": {"name": "Rex"}})
            [outcome] = await runtime.executor.execute_parallel([call], ToolContext(session_id="s1"))

    assert names == ["openapi__shop__listPets", "openapi__shop__addPet", "openapi__shop__getPet"]
    assert isinstance(outcome.result, Ok)
    assert outcome.result.structured == {"id": 4}
    assert (server.requests[0].path, server.requests[0].headers["x-key"]) == ("/v2/pets", "k-7")


async def test_a_description_is_read_from_its_url(tmp_path: Path) -> None:
    def respond(request: Request, connection: object) -> bytes:
        text = json.dumps({**SHOP, "servers": [{"url": "/v3"}]})
        return answer(body=text.encode(), content_type="application/json")

    with serving(respond) as server:
        entry = f'url = "{server.url}/openapi.json"\noperations = ["getPet"]'
        names, warnings = await registered(configure(tmp_path, entry), tmp_path)

    assert names == ["openapi__shop__getPet"]
    assert len(warnings) == 1, "the upload is left out"


async def test_an_api_whose_description_cannot_be_fetched_is_a_warning(tmp_path: Path) -> None:
    with serving(lambda request, connection: answer("503 Unavailable")) as server:
        names, warnings = await registered(configure(tmp_path, f'url = "{server.url}/a"'), tmp_path)

    assert names == []
    assert "shop" in warnings[0]


@pytest.mark.parametrize(
    ("entry", "grants"),
    [
        ('file = "none.json"', GRANTS),
        ('file = "broken.json"', GRANTS),
        ('url = "http://127.0.0.1:9/x"', ""),
        ('url = "http://other.example/x"', GRANTS),
        ('file = "shop.json"\nbase_url = "https://other.example"', GRANTS),
        ('file = "shop.json"\nurl = "https://other.example"', GRANTS),
        ("", GRANTS),
        ('file = "shop.json"\nunknown = 1', GRANTS),
    ],
)
async def test_a_wrong_entry_is_an_error_of_the_configuration(tmp_path: Path, entry: str, grants: str) -> None:
    (tmp_path / "shop.json").write_text(json.dumps(SHOP), encoding="utf-8")
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")

    with pytest.raises(InvalidConfigError):
        await registered(configure(tmp_path, entry, grants), tmp_path)


def test_the_file_of_a_description_is_part_of_what_is_trusted(tmp_path: Path) -> None:
    path = configure(tmp_path, 'file = "shop.json"')
    (tmp_path / "shop.json").write_text("{}", encoding="utf-8")

    _, file = parse_config(path, path.read_bytes())

    assert find_local_code(file, tmp_path, cwd=tmp_path, environ={}) == [tmp_path / "shop.json"]
