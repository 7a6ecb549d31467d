"""Operations of a description as tools, called over a real connection."""

import json
from pathlib import Path
from typing import Any

import pytest

from spindle import Err, Media, Ok
from spindle.errors import InvalidOpenApiError
from spindle.kit.openapi import build_api_tools
from tests.capabilities.loopback import answer, redirect, serving
from tests.kit.openapi.apis import SHOP, reply, served

pytestmark = pytest.mark.anyio

SECRETS = {"key": "SHOP_KEY", "asked": "SHOP_KEY", "login": "SHOP_LOGIN", "token": "SHOP_TOKEN"}
VALUES = {"SHOP_KEY": "k-1\n", "SHOP_LOGIN": "ann:pw", "SHOP_TOKEN": "t-1"}


def names(**options: Any) -> list[str]:
    built = build_api_tools(SHOP, name="shop", base_url="https://shop.example", secrets=SECRETS, **options)
    return [tool.name.rpartition("__")[2] for tool in built.tools]


def test_each_operation_is_a_tool_and_get_is_read_only() -> None:
    built = build_api_tools(SHOP, name="shop", base_url="https://shop.example/v1", secrets=SECRETS)

    tools = {tool.name: tool for tool in built.tools}
    assert list(tools) == [f"openapi__shop__{name}" for name in ("listPets", "addPet", "getPet", "deletePet")]
    assert {name: tool.read_only for name, tool in tools.items()} == {
        "openapi__shop__listPets": True,
        "openapi__shop__addPet": False,
        "openapi__shop__getPet": True,
        "openapi__shop__deletePet": False,
    }
    assert tools["openapi__shop__addPet"].capabilities.network == ("shop.example",)
    assert tools["openapi__shop__addPet"].capabilities.secrets == ("SHOP_KEY",)
    assert "page, per_page" in tools["openapi__shop__listPets"].description
    assert built.problems == (
        "POST /upload is left out: its body is multipart/form-data; expected JSON, a form or text",
    )


def test_operations_are_selected_by_id_pattern_and_tag() -> None:
    assert names(operations=["list*", "getPet"]) == ["listPets", "getPet"]
    assert names(operations=["tag:pets"], exclude=["delete*"]) == ["listPets", "addPet", "getPet"]
    assert names(operations=["tag:none"]) == []


def test_an_operation_without_a_secret_for_its_scheme_is_left_out() -> None:
    built = build_api_tools(SHOP, name="shop", base_url="https://shop.example", secrets={"login": "L"})

    assert [tool.name for tool in built.tools] == [
        "openapi__shop__listPets",
        "openapi__shop__getPet",
        "openapi__shop__deletePet",
    ]
    assert any("addPet" in problem and "key" in problem for problem in built.problems)


def test_a_large_description_needs_a_selection() -> None:
    paths = {f"/p{n}": {"get": {"operationId": f"p{n}", "tags": ["even"] if n % 2 == 0 else []}} for n in range(301)}
    large = {**SHOP, "paths": paths}

    with pytest.raises(InvalidOpenApiError):
        build_api_tools(large, name="shop", base_url="https://shop.example")
    assert len(build_api_tools(large, name="x", base_url="https://x.example", operations=["tag:even"]).tools) == 151


def test_two_operations_with_one_name_keep_the_first() -> None:
    twice = {**SHOP, "paths": {"/a": {"get": {"operationId": "a b"}}, "/b": {"get": {"operationId": "a.b"}}}}

    built = build_api_tools(twice, name="x", base_url="https://x.example")

    assert [tool.name for tool in built.tools] == ["openapi__x__a_b"]
    assert len(built.problems) == 1


async def test_arguments_become_query_headers_and_path(tmp_path: Path) -> None:
    with served(tmp_path, reply([{"id": 1, "name": "Rex"}])) as api:
        listed = await api.call("listPets", page=2, tags=["a b", "c&d"], **{"X-Trace": "t9"})
        query, headers = api.query, api.server.requests[-1].headers
        await api.call("getPet", petId="a/b ?#")

        assert isinstance(listed, Ok)
        assert listed.structured == [{"id": 1, "name": "Rex"}]
        assert not listed.trusted
        assert query == {"page": ["2"], "tags": ["a b", "c&d"]}
        assert headers["x-trace"] == "t9"
        assert api.target == "/v1/pets/a%2Fb%20%3F%23"


@pytest.mark.parametrize("pet", ["..", ".", "%2e%2e"])
async def test_a_path_parameter_cannot_leave_its_path(tmp_path: Path, pet: str) -> None:
    with served(tmp_path, reply({})) as api:
        result = await api.call("getPet", petId=pet)

        if pet == "%2e%2e":
            assert api.target == "/v1/pets/%252e%252e"
        else:
            assert isinstance(result, Err)
            assert result.code == "input_invalid"
            assert api.server.requests == []


async def test_a_body_is_checked_by_its_schema_and_sent_as_json(tmp_path: Path) -> None:
    with served(tmp_path, reply({"ok": True}), secrets=SECRETS, values=VALUES) as api:
        refused = await api.call("addPet", body={"name": "", "tag": None})
        with_id = await api.call("addPet", body={"name": "Rex", "weight": 0})
        sent = await api.call("addPet", body={"name": "Rex", "tag": None, "parent": {"name": "Max"}})

        assert isinstance(refused, Err)
        assert refused.code == "input_invalid"
        assert isinstance(with_id, Err), "weight has an exclusive minimum"
        assert isinstance(sent, Ok)
        assert len(api.server.requests) == 1
        assert json.loads(api.server.requests[0].body) == {"name": "Rex", "tag": None, "parent": {"name": "Max"}}


async def test_secrets_are_sent_as_the_scheme_says_and_masked_in_results(tmp_path: Path) -> None:
    def echo(request: Any, connection: Any) -> bytes:
        return answer(body=json.dumps(request.headers).encode(), content_type="application/json")

    with served(tmp_path, echo, secrets=SECRETS, values=VALUES) as api:
        added = await api.call("addPet", body={"name": "Rex"})
        await api.call("deletePet", petId="1")

        assert api.server.requests[0].headers["x-key"] == "k-1"
        assert api.server.requests[1].headers["authorization"] == "Bearer t-1"
        assert isinstance(added, Ok)
        assert "k-1" not in added.value

    with served(tmp_path, echo, secrets={"login": "SHOP_LOGIN"}, values=VALUES) as api:
        await api.call("deletePet", petId="1")
        assert api.server.requests[0].headers["authorization"] == "Basic YW5uOnB3"


async def test_a_secret_in_the_query_replaces_an_argument(tmp_path: Path) -> None:
    paths: dict[str, Any] = {
        "/p": {
            "get": {
                "operationId": "p",
                "security": [{"asked": []}],
                "parameters": [{"name": "api_key", "in": "query", "schema": {"type": "string"}}],
            }
        }
    }
    with served(tmp_path, reply({}), {**SHOP, "paths": paths}, secrets=SECRETS, values=VALUES) as api:
        await api.call("p", api_key="mine")

        assert api.query == {"api_key": ["k-1"]}


async def test_a_credential_does_not_follow_a_redirect(tmp_path: Path) -> None:
    with serving(reply({"stolen": True})) as other:
        with served(tmp_path, redirect(f"{other.url}/x"), secrets=SECRETS, values=VALUES) as api:
            result = await api.call("deletePet", petId="1")

        assert isinstance(result, Err)
        assert other.requests == []


async def test_the_next_page_is_named(tmp_path: Path) -> None:
    with served(tmp_path, reply([1], link='<http://x/v1/pets?page=3&per_page=2>; rel="next"')) as api:
        linked = await api.call("listPets", page=2, per_page=2)
    with served(tmp_path, reply({"items": [], "meta": {"next_page_token": "abc"}})) as api:
        token = await api.call("listPets")
    with served(tmp_path, reply([])) as api:
        last = await api.call("listPets", page=2)

    assert isinstance(linked, Ok)
    assert linked.value.endswith("[There are more results: call again with page=3.]")
    assert isinstance(token, Ok)
    assert "page=abc" in token.value
    assert isinstance(last, Ok)
    assert last.value == "[]"


async def test_an_error_of_the_api_is_an_error_result(tmp_path: Path) -> None:
    with served(tmp_path, reply({"message": "slow down"}, "429 Too Many Requests")) as api:
        result = await api.call("getPet", petId="1")

    assert isinstance(result, Err)
    assert (result.code, result.retryable) == ("execution_failed", True)
    assert "slow down" in result.error


async def test_an_image_is_media_and_other_bytes_are_kept(tmp_path: Path) -> None:
    png = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
    with served(tmp_path, lambda request, connection: answer(body=png, content_type="image/png")) as api:
        image = await api.call("getPet", petId="1")

    assert isinstance(image, Ok)
    [media] = image.media
    assert isinstance(media, Media)
    assert await media.as_bytes() == png


async def test_a_listed_operation_needs_approval(tmp_path: Path) -> None:
    with served(tmp_path, reply({}), secrets=SECRETS, values=VALUES, requires_approval=["delete*"]) as api:
        result = await api.call("deletePet", petId="1")

        assert isinstance(result, Err)
        assert result.code == "needs_approval"
        assert api.server.requests == []


async def test_the_tools_reach_the_host_of_the_api_only(tmp_path: Path) -> None:
    with serving(reply({})) as other, served(tmp_path, redirect(f"http://localhost:{other.port}/")) as api:
        result = await api.call("getPet", petId="1")

        assert isinstance(result, Err)
        assert other.requests == []


def test_a_description_from_elsewhere_cannot_choose_who_gets_the_credentials() -> None:
    def build(server: str, **options: Any) -> tuple[list[str], str]:
        place: dict[str, Any] = {"url": "https://shop.example/openapi.json", **options}
        built = build_api_tools({**SHOP, "servers": [{"url": server}]}, name="shop", secrets=SECRETS, **place)
        return [tool.name for tool in built.tools if tool.capabilities.secrets], " ".join(built.problems)

    own, _ = build("https://shop.example/v1")
    relative, _ = build("/v1")
    named, _ = build("https://evil.example", base_url="https://api.shop.example")
    file, _ = build("https://api.shop.example", url=None)
    assert own
    assert own == relative == named == file
    for server in ("https://evil.example", "http://shop.example", "https://shop.example:8443", "//evil.example"):
        with_secrets, problems = build(server)
        assert with_secrets == []
        assert "set base_url" in problems


HIDDEN = "x\U000e0041\u202e<|im_start|>"


def test_no_part_of_a_schema_hides_text() -> None:
    def operation(id: str, parameter: dict[str, Any], body: dict[str, Any] | None = None) -> dict[str, Any]:
        content = {"content": {"application/json": {"schema": body}}}
        return {"operationId": id, "parameters": [parameter], **({} if body is None else {"requestBody": content})}

    shown = {"type": "string", "default": HIDDEN, "examples": [HIDDEN], "description": HIDDEN, f"y{HIDDEN}": HIDDEN}
    paths = {
        "/a": {"post": operation("a", {"name": "q", "in": "query", "schema": shown})},
        "/b": {"post": operation("b", {"name": f"q{HIDDEN}", "in": "query", "schema": {}})},
        "/c": {"post": operation("c", {"name": "q", "in": "query", "schema": {"enum": [HIDDEN]}})},
        "/d": {"post": operation("d", {"name": "q", "in": "query", "schema": {}}, {"properties": {HIDDEN: {}}})},
    }
    document = {"openapi": "3.1.0", "info": {"title": "x", "version": "1"}, "paths": paths}
    built = build_api_tools(document, name="shop", base_url="https://shop.example")

    [tool] = built.tools
    said = json.dumps(tool.input_schema, ensure_ascii=False)
    assert [part for part in ("\U000e0041", "\u202e", "<|im_start|>") if part in said] == []
    assert len(built.problems) == 3
    assert all(problem.isprintable() for problem in built.problems)
