"""Sessions with AgentDojo's tools behind an executor that has one of the policies that are compared."""
# pyright: basic, reportMissingImports=false

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal, TypeAlias

from benchmarks.agentdojo.dojo import Returned, World
from benchmarks.agentdojo.policy import Declared
from spindle import Call, Err, Executor, Ok, Tool, ToolContext, ToolRegistry
from spindle.execution import ApprovalRequest
from spindle.trust import SinkPolicy
from spindle.trust.flow import FlowPolicy

PolicyName: TypeAlias = Literal["no policy", "turn taint", "values"]
POLICY_NAMES: tuple[PolicyName, ...] = ("no policy", "turn taint", "values")


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a call."""

    returned: Returned | None
    """`None` if it did not run."""
    is_asked: bool
    reasons: tuple[str, ...] = ()


class Desk:
    """The tools of a suite behind an executor; its sessions run one after the other."""

    def __init__(
        self,
        world: World,
        functions: Mapping[str, Any],
        declared: Mapping[str, Declared],
        name: PolicyName,
        policy: FlowPolicy,
    ) -> None:
        self.world, self.name = world, name
        self.is_approving = False
        self._returned: Returned | None = None
        self._asked: tuple[str, ...] | None = None
        tools = [self._build_tool(functions[each], declared[each]) for each in declared]
        settings: dict[str, Any] = {}
        if name == "turn taint":
            settings["sinks"] = SinkPolicy([each for each, tool in declared.items() if not tool.read_only])
        elif name == "values":
            settings["flow"] = policy
        self.executor = Executor(ToolRegistry(tools), approve=self._answer, timeout_seconds=None, **settings)
        self._sessions = count(1)

    def _build_tool(self, function: Any, declared: Declared) -> Tool:
        async def run(args: Any, _ctx: ToolContext, _meta: object) -> Ok | Err:
            returned = self.world.run(function.name, args.model_dump(exclude_unset=True))
            self._returned = returned
            if returned.is_error:
                return Err("execution_failed", returned.text)
            return Ok(returned.text, structured=returned.structured, trusted=declared.output == "trusted")

        options: dict[str, Any] = {"read_only": declared.read_only, "trusted": declared.output == "trusted"}
        if self.name == "values":
            options = {
                "read_only": declared.read_only,
                "output": declared.output,
                "destructive": declared.destructive,
                "produces": declared.produces,
                "roles": declared.roles,
            }
        return Tool(
            name=function.name,
            description=function.description,
            input_schema=function.parameters,
            handler=run,
            **options,
        )

    def _answer(self, request: ApprovalRequest) -> bool:
        self._asked = request.reasons
        return self.is_approving

    def open(self, environment: Any) -> "Session":
        """Begin a session of its own."""
        self.world.environment = environment
        return Session(self, f"s{next(self._sessions)}")

    async def call(self, call: Call, ctx: ToolContext, *, is_approving: bool) -> Done:
        """Run a call, and answer if it is asked about."""
        self._returned, self._asked, self.is_approving = None, None, is_approving
        await self.executor.execute_parallel([call], ctx)
        return Done(self._returned, self._asked is not None, self._asked or ())


class Session:
    """A session of a user with a model."""

    def __init__(self, desk: Desk, name: str) -> None:
        self._desk, self._name = desk, name
        self._turns, self._calls = count(1), count(1)
        self._ctx = ToolContext(name)

    def say(self, text: str) -> None:
        """Begin a turn with a message of the user."""
        turn = f"t{next(self._turns)}"
        # Turn taint forgets: each of its turns is a session.
        session_id = f"{self._name}-{turn}" if self._desk.name == "turn taint" else self._name
        self._ctx = ToolContext(session_id, turn_id=turn)
        self._ctx.flow.add_user_text(text)

    async def call(self, name: str, args: Mapping[str, Any], *, is_approving: bool) -> Done:
        """Run a call of the model in a batch of its own."""
        call = Call(f"c{next(self._calls)}", name, dict(args))
        return await self._desk.call(call, self._ctx, is_approving=is_approving)
