"""One call and one turn, against other libraries in their own environments.

Each library measures itself in a process of its own, by the adapters of `benchmarks/peers`, and reports its fastest
round.
"""

from functools import cache, partial
from typing import Literal

from benchmarks.harness import Benchmark, Reported
from benchmarks.peers.__main__ import OURS, installed, run_single
from benchmarks.peers.adapters.driving import Single

Figure = Literal["with_deadline", "whole_turn"]


@cache
def measured(library: str) -> Single:
    return run_single(library)


def ours(figure: Figure) -> Reported:
    return Reported(lambda: getattr(measured(OURS), figure))


def figures(figure: Figure, *, needs_deadline: bool) -> list[float]:
    """Return the seconds of every installed peer that has such a figure."""
    peers = [measured(each) for each in installed()]
    equal = [each for each in peers if each.with_deadline is not None or not needs_deadline]
    return [took for each in equal if (took := getattr(each, figure)) is not None]


def best_peer(figure: Figure, *, needs_deadline: bool = True) -> Reported:
    return Reported(lambda: min(figures(figure, needs_deadline=needs_deadline)))


def find_missing(figure: Figure, *, needs_deadline: bool = True) -> str | None:
    """Return why no peer can be compared, or `None`."""
    if figures(figure, needs_deadline=needs_deadline):
        return None
    return "no installed library does this: make demo PEERS=1 installs them"


BENCHMARKS = [
    Benchmark(
        name="a batch of one with a deadline / the fastest peer that has deadlines",
        floor=best_peer("with_deadline"),
        subject=ours("with_deadline"),
        aim=1,
        missing=partial(find_missing, "with_deadline"),
    ),
    # The agent of each library is created for the turn, as most programs do.
    Benchmark(
        name="a whole turn with one call / the fastest peer that has deadlines",
        floor=best_peer("whole_turn"),
        subject=ours("whole_turn"),
        aim=20,
        direction="at least",
        missing=partial(find_missing, "whole_turn"),
        note="The fastest peer with deadlines is openai-agents. Profile: of about 890 function calls, the batch of one "
        "takes 36 % (its path around the handler 20 %), the record of the outcome 11 %, the runner 16 % (half of it "
        "its executor, whose two lists of layers are built at once), the callback and its scope 10 %, the answer's "
        "message 8 %, the turn's contexts 12 %. Not tried: building the layers of direct calls on first use.",
    ),
    Benchmark(
        name="the same / the fastest peer, also without deadlines",
        floor=best_peer("whole_turn", needs_deadline=False),
        subject=ours("whole_turn"),
        direction="at least",
        missing=partial(find_missing, "whole_turn", needs_deadline=False),
    ),
]
