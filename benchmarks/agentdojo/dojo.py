"""AgentDojo's suites as the replay needs them: environments with attacks in them, tools, and AgentDojo's own checks."""
# pyright: basic, reportMissingImports=false
# The library lives in another environment than the type checker's.

import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml
from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
from agentdojo.attacks.important_instructions_attacks import ImportantInstructionsAttack
from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime
from agentdojo.task_suite.load_suites import get_suites
from agentdojo.task_suite.task_suite import read_suite_file
from agentdojo.types import text_content_block_from_string
from pydantic_core import to_jsonable_python

from benchmarks.agentdojo.missing_attacks import WRITTEN

VERSION = "v1.2.2"
TEMPLATE = ImportantInstructionsAttack._JB_STRING
USER, MODEL = "Emma Johnson", "the AI language model"


@dataclass(frozen=True, slots=True)
class Returned:
    """What one of AgentDojo's functions returned: the text for the model, and the same as JSON."""

    text: str
    structured: Any
    is_error: bool


class World:
    """The environment of one replay, and the functions that act on it."""

    def __init__(self, functions: Sequence[Any]) -> None:
        self.environment: Any = None
        self._runtime = FunctionsRuntime(functions)
        self._texts: dict[str, str] = {}

    def run(self, name: str, args: Mapping[str, Any]) -> Returned:
        """Run a function on the environment."""
        value, error = self._runtime.run_function(self.environment, name, args)
        if error is not None:
            return Returned(error, None, is_error=True)
        structured = to_jsonable_python(value)
        key = json.dumps(structured)
        if key not in self._texts:  # writing YAML takes longer than all the rest
            self._texts[key] = tool_result_to_str(value)
        return Returned(self._texts[key], structured, is_error=False)


class Suite:
    """A suite of user tasks and attacks."""

    def __init__(self, suite: Any) -> None:
        self._suite = suite
        self.name: str = suite.name
        self.functions: list[Any] = suite.tools
        self.users: dict[str, Any] = suite.user_tasks
        self.attacks: dict[str, Any] = suite.injection_tasks
        self._places: dict[str, str] = suite.get_injection_vector_defaults()

    def build(self, user: str, attack: str | None = None) -> Any:
        """Return a new environment for a user task, with the text of an attack in all places that the task reads."""
        places = frozenset[str]() if attack is None else self.find_places(user)
        return self.users[user].init_environment(pickle.loads(self._load(attack, places)))

    @cache  # noqa: B019 - a suite lives as long as the program
    def find_places(self, user: str) -> frozenset[str]:
        """Return the places where others can write that the results of a user task show."""
        task, world = self.users[user], World(self.functions)
        environment = task.init_environment(self._build({place: f"<{place}>" for place in self._places}))
        world.environment = environment
        shown = [_flatten(world.run(call.function, call.args)) for call in task.ground_truth(environment)]
        return frozenset(place for place in self._places if any(f"<{place}>" in text for text in shown))

    @cache  # noqa: B019 - as above
    def _load(self, attack: str | None, places: frozenset[str]) -> bytes:
        goal: str = "" if attack is None else self.attacks[attack].GOAL
        text: str = TEMPLATE.format(goal=goal, user=USER, model=MODEL)
        return pickle.dumps(self._build(self._places | dict.fromkeys(places, text)))

    def _build(self, texts: Mapping[str, str]) -> Any:
        # As the suite does it, with a parser that is ten times as fast.
        text = read_suite_file(self.name, "environment.yaml", self._suite.data_path)
        return self._suite.environment_type.model_validate(yaml.load(text.format(**texts), yaml.CSafeLoader))

    def get_attack_calls(self, attack: str, environment: Any) -> list[FunctionCall]:
        """Return the calls of an attack: AgentDojo's, or ours where it has none."""
        task = self.attacks[attack]
        write = WRITTEN.get((self.name, attack))
        if write is None:
            return task.ground_truth(environment)
        return [FunctionCall(function=name, args=args) for name, args in write(task, environment)]

    def check(self, task: Any, before: Any, after: Any, ran: Sequence[FunctionCall]) -> bool:
        """Return AgentDojo's verdict: whether a user task is done, or an attack has succeeded."""
        said = [text_content_block_from_string(task.GROUND_TRUTH_OUTPUT)]
        return bool(self._suite._check_task_result(task, said, before, after, ran))


def load_suites() -> list[Suite]:
    """Return the suites, in AgentDojo's order."""
    return [Suite(suite) for suite in get_suites(VERSION).values()]


def shows_attack(returned: Returned) -> bool:
    """Return whether a result contains the text of the attack."""
    return _MARK in _flatten(returned)


def _flatten(returned: Returned) -> str:
    # The text may break a line of the attack; the values do not.
    return returned.text + json.dumps(returned.structured, ensure_ascii=False)


def copy_environment(environment: Any) -> Any:
    """Return a copy that shares nothing; a deep copy takes four times as long."""
    return pickle.loads(pickle.dumps(environment))


_MARK = max((line for line in TEMPLATE.splitlines() if "{" not in line), key=len)
