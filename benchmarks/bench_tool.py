"""One tool: a call against its floor, a refusal, and what a thousand definitions cost."""

import json
from functools import partial
from typing import Annotated, Any

from jiter import from_json
from pydantic import BaseModel, Field, TypeAdapter

from benchmarks import canonical
from benchmarks.harness import Benchmark
from spindle import Tool, ToolContext, errors, tool

GOOD = b'{"customer":"alice","limit":5,"tags":["new","paid"]}'
FLAGGED = b'{"customer":"alice","limit":5,"paid":true,"tags":["new","paid"]}'
MAPPING = {"customer": "alice", "limit": 5, "paid": True, "tags": ["new", "paid"]}
BAD = b'{"customer":"alice","limit":500,"tags":["new","paid"]}'
MANY = 1_000


class Arguments(BaseModel):
    customer: str
    limit: Annotated[int, Field(ge=1, le=100)] = 10
    paid: bool = False
    tags: list[str] = []


async def bare(args: Arguments) -> str:
    return args.customer


@tool
async def search_orders(
    customer: str,
    limit: Annotated[int, Field(ge=1, le=100)] = 10,  # noqa: ARG001 - a realistic signature, of which the body needs one
    paid: bool = False,  # noqa: ARG001, FBT001, FBT002 - as above
    tags: list[str] = [],  # noqa: ARG001, B006 - as above; the validator copies defaults
) -> str:
    """Find a customer's orders."""
    return customer


validate_json = TypeAdapter(Arguments).validator.validate_json
validate_python = TypeAdapter(Arguments).validator.validate_python
execute = search_orders.executor(ToolContext(session_id="bench"))


async def floor() -> str:
    return await bare(validate_json(GOOD))


async def call() -> Any:
    return await execute(GOOD)


async def flagged_floor() -> str:
    return await bare(validate_json(FLAGGED))


async def flagged_call() -> Any:
    return await execute(FLAGGED)


async def mapping_floor() -> str:
    return await bare(validate_python(MAPPING))


async def mapping_call() -> Any:
    return await execute(MAPPING)


async def refused() -> None:
    try:
        await execute(BAD)
    except errors.InvalidToolArgsError:
        return
    raise AssertionError("it was to be refused")


def build_models() -> list[type[BaseModel]]:
    """Make the pydantic models of a thousand tools, as anyone would by hand."""
    models: list[type[BaseModel]] = []
    for _ in range(MANY):

        class Model(BaseModel):
            """Find a customer's orders."""

            customer: Annotated[str, Field(description="The customer's number or name.")]
            limit: Annotated[int, Field(ge=1, le=100, description="How many at most.")] = 10
            tags: Annotated[list[str], Field(description="Only orders with all of these.")] = []

        models.append(Model)
    return models


def define() -> list[Tool]:
    """Make a thousand tools of functions with the same parameters."""
    tools: list[Tool] = []
    for _ in range(MANY):

        @tool
        async def search(
            customer: str,
            limit: Annotated[int, Field(ge=1, le=100)] = 10,  # noqa: ARG001 - a realistic signature, of which the body needs one
            tags: list[str] = [],  # noqa: ARG001, B006 - as above; the validator copies defaults
        ) -> str:
            """Find a customer's orders.

            Args:
                customer: The customer's number or name.
                limit: How many at most.
                tags: Only orders with all of these.
            """
            return customer

        tools.append(search)
    return tools


def describe(tools: list[Tool]) -> None:
    for each in tools:
        each.describe()


def define_and_describe() -> None:
    describe(define())


class FirstAndAgain:
    """Return a thousand new tools, and a thousand that were described before."""

    def __init__(self) -> None:
        self.fresh = define()
        self.known = define()
        describe(self.known)


known = define()
schemas = [json.dumps(each.describe()["input_schema"]).encode() for each in known]


def parse_schemas() -> None:
    for schema in schemas:
        from_json(schema)


def describe_known() -> None:
    describe(known)


def describe_first(tools: FirstAndAgain) -> None:
    describe(tools.fresh)


def describe_again(tools: FirstAndAgain) -> None:
    describe(tools.known)


BENCHMARKS = [
    Benchmark(name="a valid call / pydantic-core and awaiting the handler", floor=floor, subject=call, aim=2.5),
    Benchmark(name="a valid call with a boolean / the same", floor=flagged_floor, subject=flagged_call, aim=2.5),
    Benchmark(
        name="a valid call, its arguments a mapping / the same", floor=mapping_floor, subject=mapping_call, aim=5
    ),
    Benchmark(name="a refused call / the same floor", floor=floor, subject=refused, aim=4),
    Benchmark(name="1,000 tools defined / their pydantic models built", floor=build_models, subject=define, aim=0.15),
    Benchmark(
        name="1,000 tools defined and described / their pydantic models built",
        floor=build_models,
        subject=define_and_describe,
        clock="cpu",  # seconds of work: on a busy machine the wall clock shows the others
        aim=1.2,
    ),
    Benchmark(
        name="1,000 tools described again / for the first time",
        floor=describe_first,
        subject=describe_again,
        setup=FirstAndAgain,
        clock="cpu",
        aim=500,
        direction="at least",
        note="Described again, a tool parses its JSON anew, so that the caller may change what it gets: 2.3 ms for "
        "1,000 tools, of which a bare parse is 1.3. The first time takes 670 ms, nearly all of it pydantic's, so even "
        "the bare parse would just reach the aim.",
    ),
    Benchmark(
        name="1,000 tools described again / parsing their schemas",
        floor=parse_schemas,
        subject=describe_known,
        clock="cpu",
        aim=2,
    ),
    Benchmark(
        name="canonical JSON of a 1 KB argument / json.dumps(sort_keys=True)",
        floor=partial(canonical.floor, canonical.ARGUMENTS["1 KB with floats"]),
        subject=partial(canonical.ours, canonical.ARGUMENTS["1 KB with floats"]),
        aim=1,
    ),
]
