"""`spindle demo`: hostile calls among good ones."""

from functools import partial
from typing import Annotated

import anyio
from cyclopts import Parameter

from spindle.cli.demo import main as run_demo
from spindle.cli.demo_calls import every_call, six_calls
from spindle.cli.demo_facts import facts_of
from spindle.cli.demo_run import demonstrate
from spindle.cli.exits import OK
from spindle.cli.options import NOWHERE, Json, Where
from spindle.cli.output import Output


def demo(
    *,
    all: Annotated[bool, Parameter(name="--all", negative="", help="Calls of every kind, not only the six.")] = False,
    json: Json = False,
    where: Where = NOWHERE,  # noqa: ARG001 - so that the same options are understood everywhere
) -> int:
    """Put hostile calls to one executor among good ones, and show what became of each."""
    if json:
        Output().json(facts_of(anyio.run(partial(demonstrate, every_call() if all else six_calls()))))
    else:
        run_demo(["--all"] if all else [])
    return OK
