"""What the flow policy costs: a call judged with a megabyte of text in the ledger, that text added, and a whole call.

The floor of judging is the bare search for the values of the call in that text, without token boundaries, spellings or
labels. A search stops where it finds the value, so the values stand at the end of the text, or nowhere.
"""

from collections.abc import Callable
from itertools import count
from typing import Annotated, Any

from benchmarks.harness import Benchmark
from benchmarks.texts import build_text
from spindle import Call, Executor, ToolContext, ToolRegistry, tool
from spindle.trust.flow import Content, FlowCall, FlowLedger, FlowPolicy, Target

AIM_SECONDS = 200e-6
NAMED, FOREIGN, LISTED = "ada@corp.example", "mallory@evil.example", "grace@corp.example"
PROSE = build_text("prose")[:500_000]
THIRD_PARTY = build_text("JSON")[:499_000]
TEXTS = (PROSE, f"{THIRD_PARTY} {FOREIGN}")
TRUSTED = f"{PROSE} {THIRD_PARTY} {LISTED}"[-1_000_000:]
BODY = PROSE[250_000:250_500]
PAGE = PROSE[:10_000]
ASKED = f"Summarise the orders and mail that to {NAMED}, please."


@tool(read_only=True, output="third-party-public")
async def fetch_page() -> str:
    """Fetch the page."""
    return PAGE


@tool(read_only=True, output="trusted")
async def list_contacts() -> str:
    """List the contacts."""
    return TRUSTED


@tool(output="first-party")
async def send_mail(to: Annotated[str, Target()], body: Annotated[str, Content()] = "") -> str:
    """Send a mail."""
    return f"Sent {len(body)} characters to {to}."


policy = FlowPolicy()


def build_ledger(*, has_contacts: bool) -> FlowLedger:
    ledger = FlowLedger()
    ledger.add_user_text(ASKED)
    if has_contacts:
        ledger.add_result(list_contacts.flow, TRUSTED, call_id="c0")
        ledger.add_result(fetch_page.flow, PAGE, call_id="c1")
    else:
        for number, text in enumerate(TEXTS):
            ledger.add_result(fetch_page.flow, text, call_id=f"c{number}")
    return ledger


def judge(args: dict[str, Any], *, needs_approval: bool, has_contacts: bool = False) -> Callable[[], None]:
    ledger = build_ledger(has_contacts=has_contacts)
    calls = [FlowCall(tool=send_mail, args=args, call_id="c9")]
    if policy.judge(calls, ledger)[0].needs_approval is not needs_approval:
        raise RuntimeError(f"The policy judges {args} not as this benchmark expects.")

    def subject() -> None:
        policy.judge(calls, ledger)

    return subject


def search(*values: str) -> Callable[[], None]:
    def floor() -> None:
        for value in values:
            for text in TEXTS:
                text.find(value)

    return floor


def search_contacts() -> None:
    TRUSTED.find(LISTED)


def split_words() -> None:
    for text in TEXTS:
        text.casefold().split()


def add_results() -> None:
    build_ledger(has_contacts=False)


plain = Executor(ToolRegistry([send_mail]))
watched = Executor(ToolRegistry([send_mail]), flow=policy)
sessions = count()
MANY = 50
"""Calls in one session, so that its start does not count."""
CALLS = [Call("c9", "send_mail", {"to": NAMED, "body": "The orders are fine."})]


def open_session() -> ToolContext:
    ctx = ToolContext(f"bench-{next(sessions)}")
    ctx.flow.add_user_text(ASKED)
    ctx.flow.ledger.add_result(fetch_page.flow, PAGE, call_id="c0")
    return ctx


def execute(executor: Executor) -> Callable[[ToolContext], Any]:
    async def work(ctx: ToolContext) -> None:
        for _ in range(MANY):
            (outcome,) = await executor.execute_parallel(CALLS, ctx)
            if not outcome.result.ok:
                raise RuntimeError(f"The call failed: {outcome.result}")

    return work


BENCHMARKS = [
    Benchmark(
        name="a mail to a named person judged, 1 MB in the ledger / its values searched",
        floor=search(NAMED, BODY),
        subject=judge({"to": NAMED, "body": BODY}, needs_approval=False),
        aim_seconds=AIM_SECONDS,
        note="The body costs this much, not the ledger: under a profiler, over half is the search for addresses, "
        "URLs and numbers in its 500 characters, with one pass of a pattern for each kind and spelling. What would "
        "help: one pass that finds which of the patterns can match at all.",
    ),
    Benchmark(
        name="a foreign recipient refused, 1 MB in the ledger / its value searched",
        floor=search(FOREIGN),
        subject=judge({"to": FOREIGN, "body": "Hello"}, needs_approval=True),
        aim_seconds=AIM_SECONDS,
    ),
    Benchmark(
        name="a recipient in a trusted result of 1 MB judged / its value searched",
        floor=search_contacts,
        subject=judge({"to": LISTED}, needs_approval=False, has_contacts=True),
        aim_seconds=AIM_SECONDS,
    ),
    Benchmark(name="1 MB of results added to a ledger / split into words", floor=split_words, subject=add_results),
    Benchmark(
        name="a call with a flow policy, 10 KB in the ledger / without a policy",
        floor=execute(plain),
        subject=execute(watched),
        setup=open_session,
        floor_items=MANY,
        subject_items=MANY,
    ),
]
