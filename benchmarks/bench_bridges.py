"""Definitions of 1,000 tools for each dialect: converted for the first time, and from the cache."""

import json
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

from benchmarks.harness import Benchmark
from spindle import Tool, ToolRegistry
from spindle.bridges import Dialect, Spec, anthropic, bedrock, build, gemini, mcp
from spindle.bridges.openai import chat_completions, responses_api

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "customer": {"type": "string", "minLength": 1, "description": "Name or number."},
        "status": {"type": "string", "enum": ["open", "paid", "sent"], "default": "open"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
        "since": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}], "default": None},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
    },
    "required": ["customer"],
    "additionalProperties": False,
    "$defs": {
        "Line": {
            "type": "object",
            "properties": {"sku": {"type": "string"}, "count": {"type": "integer", "exclusiveMinimum": 0}},
            "required": ["sku"],
            "additionalProperties": False,
        }
    },
}


def answer(args: object, ctx: object, meta: object) -> str:  # noqa: ARG001  what a handler is given
    return ""


tools = [
    Tool(name=f"orders.search_{i}", description=f"Find orders of shop {i}.", input_schema=SCHEMA, handler=answer)
    for i in range(1_000)
]
registry = ToolRegistry(tools)


def wrap(spec: Spec) -> dict[str, Any]:
    return {"name": spec.name, "description": spec.description, "parameters": spec.schema}


def fresh() -> ToolRegistry:
    """Return the same tools with built schemas and without cached definitions."""
    return ToolRegistry([copy(tool) for tool in tools])


def plainly(of: ToolRegistry) -> bytes:
    """Each tool's own schema as JSON: the floor of telling anyone for the first time."""
    return json.dumps([tool.describe() for tool in of]).encode()


def first(dialect: Dialect, *, strict: bool) -> Callable[[ToolRegistry], bytes]:
    return lambda of: build(dialect, of, wrap, strict=strict).json


def again(dialect: Dialect, *, strict: bool) -> Callable[[], bytes]:
    return lambda: build(dialect, registry, wrap, strict=strict).json


def benchmarks() -> list[Benchmark]:
    """Two for each form; without the provider's own limit on how many tools a list has."""
    listed: list[Benchmark] = []
    for module in (chat_completions, responses_api, anthropic, gemini, bedrock, mcp):
        dialect = replace(module.DIALECT, limits=replace(module.DIALECT.limits, max_tools=None))
        # The other strict forms are the same work again.
        for strict in (False, True) if module in (chat_completions, anthropic) else (False,):
            form = f"{dialect.name}{', strict' if strict else ''}"
            listed += [
                Benchmark(
                    name=f"1,000 tools defined for {form}, first / as they are",
                    floor=plainly,
                    subject=first(dialect, strict=strict),
                    setup=fresh,
                ),
                Benchmark(
                    name=f"1,000 tools defined for {form}, again / the registry's own definitions",
                    floor=registry.definitions_json,
                    subject=again(dialect, strict=strict),
                    aim=4,
                ),
            ]
    return listed


BENCHMARKS = benchmarks()
