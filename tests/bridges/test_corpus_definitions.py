"""Every tool of the corpus, lowered to every dialect, is accepted by the types of that provider's SDK."""

import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jsonschema_rs
import pytest
from anthropic.types import ToolParam
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator
from mcp.types import Tool as McpTool
from openai.types.chat import ChatCompletionFunctionToolParam
from openai.types.responses import FunctionToolParam
from pydantic import TypeAdapter

from benchmarks.corpus import CorpusTool
from spindle import Tool
from spindle.bridges import anthropic, bedrock, gemini, mcp
from spindle.bridges.definitions import Definitions
from spindle.bridges.openai import chat_completions, responses_api
from spindle.bridges.provider_limits import wire_name

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from google.genai.types import FunctionDeclaration

DIALECTS: dict[str, ModuleType] = {
    module.DIALECT.name: module for module in (chat_completions, responses_api, anthropic, gemini, bedrock, mcp)
}
MOST = 100


def checks() -> dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]]:
    """For each dialect: the SDK's judgement of a definition, and where its schema is."""
    chat = TypeAdapter(ChatCompletionFunctionToolParam)
    responses = TypeAdapter(FunctionToolParam)
    messages = TypeAdapter(ToolParam)
    loader: Any = Loader()
    validator: Any = ParamValidator()
    service: Any = ServiceModel(loader.load_service_model("bedrock-runtime", "service-2"))
    shape: Any = service.shape_for("ToolSpecification")

    def converse(reported: Any) -> None:
        report: Any = validator.validate(reported["toolSpec"], shape)
        assert not report.has_errors(), report.generate_report()

    return {
        "openai_chat": (chat.validate_python, lambda reported: reported["function"]["parameters"]),
        "openai_responses": (responses.validate_python, lambda reported: reported["parameters"]),
        "anthropic": (messages.validate_python, lambda reported: reported["input_schema"]),
        "gemini": (FunctionDeclaration.model_validate, lambda reported: reported.get("parameters", {})),
        "bedrock": (converse, lambda reported: reported["toolSpec"]["inputSchema"]["json"]),
        "mcp": (McpTool.model_validate, lambda reported: reported["inputSchema"]),
    }


def answer(args: object, ctx: object, meta: object) -> str:
    return "ok"


@pytest.fixture(scope="module")
def tools(corpus_tools: list[CorpusTool]) -> list[Tool]:
    def made(tool: CorpusTool) -> Tool:
        description = tool.description or tool.name
        return Tool(name=tool.name, description=description, input_schema=tool.schema, handler=answer)

    return [made(tool) for tool in corpus_tools]


def in_lists(tools: list[Tool], module: ModuleType) -> list[list[Tool]]:
    """Lists that a provider takes: not too long, and no name twice."""
    lists: list[dict[str, Tool]] = [{}]
    for tool in tools:
        name = wire_name(tool.name, module.DIALECT.limits)
        home = next((each for each in lists if name not in each and len(each) < MOST), None)
        if home is None:
            home = dict[str, Tool]()
            lists.append(home)
        home[name] = tool
    return [list(each.values()) for each in lists]


@pytest.mark.parametrize("strict", [False, True], ids=["loose", "strict"])
@pytest.mark.parametrize("dialect", list(DIALECTS))
def test_every_tool_of_the_corpus_is_defined_in_a_form_the_sdk_accepts(
    dialect: str, strict: bool, tools: list[Tool]
) -> None:
    module = DIALECTS[dialect]
    if strict and module.DIALECT.strict_rules is None:
        pytest.skip("this dialect has no strict form")
    judge, schema_of = checks()[dialect]
    reported = 0
    for each in in_lists(tools, module):
        definitions: Definitions = module.definitions(each, strict=strict)
        assert [report.tool for report in definitions.reports] == [tool.name for tool in each]
        for definition in definitions.tools:
            judge(definition)
            assert jsonschema_rs.meta.is_valid(schema_of(definition))
            reported += 1
    assert reported == len(tools)


@pytest.mark.parametrize("dialect", list(DIALECTS))
def test_dotted_names_of_the_corpus_come_back_as_they_were(dialect: str, tools: list[Tool]) -> None:
    module = DIALECTS[dialect]
    dotted = 0
    for each in in_lists(tools, module):
        definitions: Definitions = module.definitions(each)
        for tool in each:
            wire = definitions.names.to_wire(tool.name)
            assert definitions.call("c1", wire, "{}").name == tool.name
            dotted += wire != tool.name
    assert dotted == 0 if dialect in ("gemini", "mcp") else dotted > 10
