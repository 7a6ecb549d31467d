import base64

import pytest

from spindle import Call, Executor, Ok, ToolContext, ToolRegistry
from spindle.bridges.frameworks.adopt import ResultBuilder, adopt, check_asyncio, to_result
from spindle.errors import InvalidToolError
from tests.bridges.frameworks.workshop import PNG

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def test_an_adopted_tool_is_held_to_its_schema_and_not_trusted() -> None:
    def double(args: dict[str, int], _ctx: object, _meta: object) -> str:
        return str(2 * args["n"])

    theirs = adopt(name="double", description=None, schema=SCHEMA, handler=double)
    calls = [Call("c1", "double", '{"n": 4}'), Call("c2", "double", '{"n": "four"}')]
    good, bad = await Executor(ToolRegistry([theirs])).execute_parallel(calls, ToolContext())

    assert theirs.describe()["input_schema"] == SCHEMA
    assert good.result == Ok("8", trusted=False)
    assert getattr(bad.result, "code", None) == "input_invalid"


def test_a_schema_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidToolError):
        adopt(name="x", description="X.", schema={"type": "no such type"}, handler=print)


def test_parts_become_one_result_with_its_media() -> None:
    said = ResultBuilder()
    said.add_text("look")
    said.add_data(PNG, "image/png")
    said.add_url("data:image/png;base64," + base64.b64encode(PNG).decode())
    said.add_url("https://shop.example/dot.png")
    said.add_base64("not base64!", "image/png")
    said.add_json({"a": 1})

    ok = said.build()

    assert [(media.kind, media.mime_type, media.trust_tier) for media in ok.media] == [
        ("image", "image/png", "third-party-private"),
        ("image", "image/png", "third-party-private"),
    ]
    assert ok.value.startswith("look")
    assert "https://shop.example/dot.png" in ok.value
    assert ok.value.endswith('{"a":1}')


@pytest.mark.parametrize(
    ("mime_type", "kind"),
    [("audio/wav", "audio"), ("video/mp4", "video"), ("application/pdf", "document"), (None, "document")],
)
def test_media_has_the_kind_of_its_type(mime_type: str | None, kind: str) -> None:
    said = ResultBuilder()
    said.add_data(b"x", mime_type)

    assert said.build().media[0].kind == kind


def test_a_plain_value_is_text_or_json() -> None:
    assert to_result("text") == "text"
    assert to_result(None) is None
    assert to_result({"a": [1]}) == Ok('{"a":[1]}', structured={"a": [1]})


async def test_only_asyncio_runs_what_needs_it(anyio_backend_name: str) -> None:
    assert (check_asyncio("x") is None) == (anyio_backend_name == "asyncio")
