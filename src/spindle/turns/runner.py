"""The turn runner: `TurnRunner.run` runs one turn and returns its report, `TurnRunner.resume` continues one."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Unpack, get_args

from spindle.artifacts.spool import Spool
from spindle.errors import InvalidToolError, InvalidTurnContextError, InvalidTurnRunnerConfigError, UsageError
from spindle.events import Events, Observer
from spindle.execution.executor import Executor
from spindle.execution.settings import raise_if_invalid
from spindle.json_types import JsonValue, untyped
from spindle.stash import Stash
from spindle.tools.declaration import Tool
from spindle.tools.filters import ToolFilter
from spindle.tools.registry import ToolRegistry
from spindle.turns import optional
from spindle.turns.context import TurnContext
from spindle.turns.gate_desk import GateDesk
from spindle.turns.middleware import Middleware
from spindle.turns.model_loop import ExecutorCallback, LoopSettings, OnWait, Readers, find_invalid_settings
from spindle.turns.record_types import MessageLike
from spindle.turns.report import Advance, TurnReport
from spindle.turns.signals import AbortSignal, CancelEvent, abort_on, is_cancel_event
from spindle.turns.stages import TurnStages

if TYPE_CHECKING:
    from spindle.execution.options import ExecutorOptions
    from spindle.journal.journal import Journal
    from spindle.journal.states import StateStore
    from spindle.media import Media
    from spindle.turns.engine import TurnEngine
    from spindle.turns.records import Records
    from spindle.turns.remote import RemoteTurns
    from spindle.turns.resumption import Resumption, TurnParts
    from spindle.turns.stream import StreamedEvent
    from spindle.turns.turn_store import TurnStore

_PIPELINES: tuple[str, ...] = (
    "turn_input_pipeline",
    "turn_output_pipeline",
    "dispatch_input_pipeline",
    "dispatch_output_pipeline",
)


class _TurnArguments(NamedTuple):
    """The arguments of one turn."""

    system_prompt: str
    messages: Iterable[MessageLike]
    stash: Stash | Mapping[str, object] | None
    session_id: str | None
    dry_run: bool
    working_dir: str | Path | None
    filter: ToolFilter | None
    attachments: "Iterable[Media]"
    cancel: CancelEvent | None
    caller: Mapping[str, JsonValue] | None
    turn_id: str | None

    def check(self) -> None:
        """Raise `InvalidTurnContextError` if one is invalid."""
        wrong: dict[str, str] = {}
        if not isinstance(untyped(self.system_prompt), str):
            wrong["system_prompt"] = "text"
        if self.session_id is not None and not isinstance(untyped(self.session_id), str):
            wrong["session_id"] = "text or None"
        if self.turn_id is not None and not (isinstance(untyped(self.turn_id), str) and self.turn_id):
            wrong["turn_id"] = "non-empty text or None"
        if not isinstance(untyped(self.dry_run), bool):
            wrong["dry_run"] = "True or False"
        if self.working_dir is not None and not isinstance(untyped(self.working_dir), (str, Path)):
            wrong["working_dir"] = "a path or None"
        if self.cancel is not None and not is_cancel_event(self.cancel):
            wrong["cancel"] = "an object with an async wait(), such as an anyio.Event, or None"
        raise_if_invalid(wrong, what="turn", error=InvalidTurnContextError)


class TurnRunner:
    """Runs turns, each with its own copy of the baseline tools; one runner may run many turns concurrently.

    Raises:
        InvalidTurnRunnerConfigError: A setting is invalid.
        ToolAlreadyRegisteredError: Two tools of the baseline have the same name.
    """

    def __init__(
        self,
        *,
        executor_callback: ExecutorCallback,
        tools: Iterable[Tool] | ToolRegistry = (),
        turn_input_pipeline: Sequence[Middleware] = (),
        turn_output_pipeline: Sequence[Middleware] = (),
        dispatch_input_pipeline: Sequence[Middleware] = (),
        dispatch_output_pipeline: Sequence[Middleware] = (),
        spool: Spool | None = None,
        journal: "Journal | None" = None,
        records: "Records | None" = None,
        executor: Executor | None = None,
        max_iterations: int | None = 50,
        max_repeats: int | None = 5,
        timeout_seconds: float | None = None,
        abort_grace_seconds: float = 5,
        readers: Readers = "on_demand",
        on_wait: OnWait | None = None,
        engine: "TurnEngine | None" = None,
        story: bool = True,
        **executor_settings: "Unpack[ExecutorOptions]",
    ) -> None:
        given = (turn_input_pipeline, turn_output_pipeline, dispatch_input_pipeline, dispatch_output_pipeline)
        pipelines = dict(zip(_PIPELINES, given, strict=True))
        parts = {"spool": spool, "journal": journal, "records": records, "executor": executor}
        limits: dict[str, float | None] = {"max_iterations": max_iterations, "max_repeats": max_repeats}
        limits |= {"abort_grace_seconds": abort_grace_seconds, "timeout_seconds": timeout_seconds}
        wrong = find_invalid_settings(executor_callback, pipelines, parts=parts, limits=limits, readers=readers)
        unused = None if executor is None else executor_settings
        wrong = {**wrong, **_find_invalid_choices(on_wait, engine, story, unused)}
        raise_if_invalid(wrong, what="TurnRunner", error=InvalidTurnRunnerConfigError)
        self._baseline = _build_baseline(tools)
        loop = LoopSettings(
            executor_callback=executor_callback,
            executor=executor or _build_executor(self._baseline, journal, executor_settings),
            inputs=tuple(dispatch_input_pipeline),
            outputs=tuple(dispatch_output_pipeline),
            max_iterations=max_iterations,
            max_repeats=max_repeats,
            abort_grace_seconds=abort_grace_seconds,
            readers=readers,
            on_wait=on_wait,
        )
        # The artifacts of a suspended turn have to outlive its run.
        own_spool = Spool.memory() if spool is None and on_wait == "suspend" else None
        self._spool = spool or own_spool
        self._journal, self._records, self._engine = journal, records, engine
        self._events, self.gates = Events(), GateDesk()
        self._stages = TurnStages(
            inputs=tuple(turn_input_pipeline),
            outputs=tuple(turn_output_pipeline),
            loop=loop,
            store=_open_store(loop.executor, on_wait, engine, spool),
            own_spool=own_spool,
            timeout_seconds=timeout_seconds,
            gates=self.gates,
            stories=_find_stories(journal, loop.executor) if story else None,
        )

    def on(self, event: str, fn: Observer) -> Callable[[], None]:
        """Register an observer of an event of every turn and return a function that removes it."""
        return self._events.on(event, fn)

    def observe(self, event: str, fn: Observer) -> Callable[[], None]:
        """Register an observer; an alias of `on`."""
        return self.on(event, fn)

    async def run(
        self,
        *,
        system_prompt: str = "",
        messages: Iterable[MessageLike] = (),
        stash: Stash | Mapping[str, object] | None = None,
        session_id: str | None = None,
        dry_run: bool = False,
        working_dir: str | Path | None = None,
        filter: ToolFilter | None = None,
        attachments: "Iterable[Media]" = (),
        cancel: CancelEvent | None = None,
        caller: Mapping[str, JsonValue] | None = None,
        turn_id: str | None = None,
    ) -> TurnReport:
        """Run one turn and return its report; failures are in the report and do not raise.

        With `dry_run`, calls are described instead of run. `filter` limits the tools that the model may see and run.
        `attachments`, and those of the user's messages, are readable by tools as `ctx.attachments`. When
        `cancel.wait()` returns, the turn is aborted. `caller` identifies the requester; contexts, events, journal
        and approvals have it. With a `turn_id` of one's own, `resume` can continue the turn if this process dies.

        Raises:
            InvalidTurnContextError: An argument is invalid; the turn was not started.
        """
        arguments = _TurnArguments(
            system_prompt=system_prompt,
            messages=messages,
            stash=stash,
            session_id=session_id,
            dry_run=dry_run,
            working_dir=working_dir,
            filter=filter,
            attachments=attachments,
            cancel=cancel,
            caller=caller,
            turn_id=turn_id,
        )
        return await self._run(self._build_turn(self._events, arguments), cancel)

    async def _run(self, turn: TurnContext, cancel: CancelEvent | None) -> TurnReport:
        if self._engine is None or turn.dry_run:  # in a dry run nothing happens that has to survive
            return await self._stages.run(turn, cancel)
        async with nullcontext() if cancel is None else abort_on(cancel, turn.abort, turn.events):
            return await self._open_remote(self._engine).run(turn)

    async def resume(
        self,
        state: Mapping[str, JsonValue] | None = None,
        answers: Mapping[str, JsonValue] | None = None,
        *,
        turn_id: str | None = None,
        cancel: CancelEvent | None = None,
    ) -> TurnReport:
        """Continue a suspended turn with answers, by ticket or gate id, or a turn whose process died by its `turn_id`.

        The answer of a ticket is `True`, `False`, or a mapping with `approved`, `args` and `by`; that of a gate is its
        value. With some of the answers, the turn may be suspended again. Calls that have finished are not run again. A
        state that was resumed before continues where the turn is now; one whose turn has ended returns its report.

        Raises:
            InvalidTurnStateError: The state was changed, is of another format, or belongs to another journal or key.
            InvalidAnswersError: An answer is unknown or invalid, or there is none.
            TurnConflictError: Another process resumes the turn at the same time.
            JournalError: The journal cannot be read or written.
            InvalidTurnRunnerConfigError: The runner has no journal with a place for turns.
        """
        if cancel is not None and not is_cancel_event(cancel):
            raise InvalidTurnContextError("cancel must be an object with an async wait(), or None", field="cancel")
        if self._engine is not None:
            signal = AbortSignal()
            async with nullcontext() if cancel is None else abort_on(cancel, signal.abort, self._events):
                return await self._open_remote(self._engine).resume(state, answers, turn_id, signal)
        found = await self._open_resumption("resume").open(state, answers, turn_id)
        return found if isinstance(found, TurnReport) else await self._stages.run(found.ctx.turn, cancel, found)

    async def advance(self, turn_id: str, *, cancel: CancelEvent | None = None) -> Advance:
        """Run one iteration of a turn that was started on an engine, and save it; the workers of engines call this.

        When `cancel.wait()` returns, the turn is aborted.

        Raises:
            InvalidTurnStateError: The journal does not have the turn, or it cannot be read here.
            TurnConflictError: Another worker has taken over the turn.
            JournalError: The journal cannot be read or written; the iteration has to be started again.
            InvalidTurnRunnerConfigError: The runner has no journal with a place for turns.
        """
        is_set = getattr(cancel, "is_set", None)
        is_cancelled = callable(is_set) and is_set() is True
        found = await self._open_resumption("advance").take(turn_id, is_cancelled=is_cancelled)
        return found if isinstance(found, Advance) else await self._stages.advance(found, cancel)

    def _open_resumption(self, purpose: str) -> "Resumption":
        if self._stages.store is None:
            raise optional.build_store_error(purpose)
        return optional.Resumption(self._stages.store, self._collect_parts(), self._events)

    def _open_remote(self, engine: "TurnEngine") -> "RemoteTurns":
        if self._stages.store is None:
            raise optional.build_store_error("engine")
        return optional.RemoteTurns(engine, self._stages.store, self._collect_parts(), self._events)

    def _collect_parts(self) -> "TurnParts":
        spool, callback = self._spool or Spool.memory(), self._stages.loop.executor_callback
        return optional.TurnParts(self._baseline, spool, self._journal, self._records, self.gates, callback)

    async def stream(
        self,
        *,
        system_prompt: str = "",
        messages: Iterable[MessageLike] = (),
        stash: Stash | Mapping[str, object] | None = None,
        session_id: str | None = None,
        dry_run: bool = False,
        working_dir: str | Path | None = None,
        filter: ToolFilter | None = None,
        attachments: "Iterable[Media]" = (),
        cancel: CancelEvent | None = None,
        caller: Mapping[str, JsonValue] | None = None,
        turn_id: str | None = None,
    ) -> "AsyncGenerator[StreamedEvent, None]":
        """Run one turn and yield its events as they happen; the last one, `report`, carries the `TurnReport`.

        Takes the arguments of `run`. Closing the generator early aborts the turn; use `contextlib.aclosing`.

        Raises:
            InvalidTurnContextError: An argument is invalid; the turn was not started.
        """
        arguments = _TurnArguments(
            system_prompt=system_prompt,
            messages=messages,
            stash=stash,
            session_id=session_id,
            dry_run=dry_run,
            working_dir=working_dir,
            filter=filter,
            attachments=attachments,
            cancel=cancel,
            caller=caller,
            turn_id=turn_id,
        )
        buffer = optional.EventBuffer()
        turn = self._build_turn(optional.forward_events(buffer, self._events), arguments)
        async with aclosing(optional.stream_turn(partial(self._run, turn, cancel), buffer, turn.abort)) as events:
            async for event in events:
                yield event

    def _build_turn(self, events: Events, arguments: _TurnArguments) -> TurnContext:
        arguments.check()
        try:
            return TurnContext(
                id=arguments.turn_id,
                session_id=arguments.session_id,
                system_prompt=arguments.system_prompt,
                tools=self._baseline.copy(),
                messages=arguments.messages,
                events=events,
                stash=arguments.stash,
                spool=self._spool or Spool.memory(),
                journal=self._journal,
                records=self._records,
                gates=self.gates,
                working_dir=arguments.working_dir,
                dry_run=arguments.dry_run,
                filter=arguments.filter,
                attachments=arguments.attachments,
                caller=arguments.caller,
            )
        except InvalidTurnContextError:
            raise
        except (UsageError, TypeError) as error:
            field = getattr(error, "field", None)
            raise InvalidTurnContextError(f"Invalid turn arguments: {error}", field=field) from error


def _find_invalid_choices(
    on_wait: object, engine: object, story: object, unused: "ExecutorOptions | None"
) -> dict[str, str]:
    wrong: dict[str, str] = {} if isinstance(story, bool) else {"story": "True or False"}
    if unused is not None and unused.get("flow") is not None:  # would silently judge nothing
        wrong["flow"] = "a setting of the executor that was passed: Executor(flow=…)"
    if on_wait not in {None, *get_args(OnWait)}:
        wrong["on_wait"] = f"None or one of {', '.join(get_args(OnWait))}"
    if engine is not None and not callable(getattr(engine, "wait", None)):
        wrong["engine"] = "a TurnEngine, such as that of spindle.engines.open_turns, or None"
    return wrong


def _open_store(
    executor: Executor, on_wait: OnWait | None, engine: "TurnEngine | None", spool: Spool | None
) -> "TurnStore | None":
    """Return the place where turns are saved, if they are.

    Raises:
        InvalidTurnRunnerConfigError: Turns are to be suspended or run on an engine, and there is no place for them.
    """
    tickets = executor.tickets
    # Without a key of one's own, no other process could read a saved turn.
    is_saved = on_wait == "suspend" or (tickets is not None and tickets.key is not None)
    store = optional.TurnStore.open(tickets) if is_saved and tickets is not None else None
    if store is None and on_wait == "suspend":
        raise optional.build_store_error("on_wait")
    if engine is not None and (store is None or tickets is None or tickets.key is None or spool is None):
        raise optional.build_store_error("engine")
    return store


def _find_stories(journal: "Journal | None", executor: Executor) -> "StateStore | None":
    """Return where the stories of turns are written: in the journal of the runner, or of its executor."""
    if journal is None and executor.tickets is not None:
        journal = executor.tickets.journal
    return None if journal is None else journal.states


def _build_baseline(tools: Iterable[Tool] | ToolRegistry) -> ToolRegistry:
    """Build the registry that every turn starts from.

    Raises:
        InvalidTurnRunnerConfigError: Something in `tools` is not a tool.
        ToolAlreadyRegisteredError: Two tools have the same name.
    """
    try:
        return ToolRegistry(tools)
    except InvalidToolError as error:
        raise InvalidTurnRunnerConfigError(f"Invalid TurnRunner settings: {error}", field="tools") from error


def _build_executor(baseline: ToolRegistry, journal: "Journal | None", settings: "ExecutorOptions") -> Executor:
    """Build the executor of a runner that was constructed without one.

    Raises:
        InvalidTurnRunnerConfigError: A setting is invalid.
    """
    try:
        return Executor(baseline, spool=None, journal=journal, **settings)
    except UsageError as error:
        raise InvalidTurnRunnerConfigError(f"Invalid TurnRunner settings: {error}", field=error.field) from error
