"""`spindle demo`: hostile calls among good ones."""

from typing import Annotated

from cyclopts import Parameter

from spindle.cli.demo import main as run_demo
from spindle.cli.exits import OK
from spindle.cli.options import NOWHERE, Where


def demo(
    *,
    all: Annotated[bool, Parameter(name="--all", negative="", help="Calls of every kind, not only the six.")] = False,
    where: Where = NOWHERE,  # noqa: ARG001 - so that the same options are understood everywhere
) -> int:
    """Put hostile calls to one executor among good ones, and show what became of each."""
    run_demo(["--all"] if all else [])
    return OK
