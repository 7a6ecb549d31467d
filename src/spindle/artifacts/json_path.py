"""JSONPath (RFC 9535) with limits on steps, depth and time; patterns take linear time, and no code is evaluated."""

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Final

from jsonpath import JSONPath, JSONPathEnvironment, JSONPathError

from spindle.artifacts.grep import is_instance
from spindle.artifacts.json_evaluator import compile_item_path, compile_path
from spindle.errors import ArtifactQueryError

MAX_PATH_CHARS: Final = 4_000
_STEPS_PER_CHECK = 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class PathLimits:
    """The work limits of one path."""

    max_steps: int = 20_000_000
    """Maximum number of visited nodes and comparisons."""
    max_depth: int = 200
    max_seconds: float = 20.0
    """Maximum processor time; waiting on a busy machine does not count."""


class _Meter:
    """A counter of the steps of one path over all records, which enforces the limits."""

    def __init__(self, path: str, limits: PathLimits, interrupt: Callable[[], None] | None) -> None:
        self.path, self.limits, self._interrupt = path, limits, interrupt
        self.deadline = time.thread_time() + limits.max_seconds
        self.steps = 0
        self._next_check = _STEPS_PER_CHECK

    def tick(self, steps: int = 1) -> None:
        self.steps += steps
        if self.steps >= self._next_check:
            self.check()

    def check(self) -> None:
        self._next_check = self.steps + _STEPS_PER_CHECK
        if self._interrupt:
            self._interrupt()
        if self.steps > self.limits.max_steps:
            raise self.limit_error(f"needs more than {self.limits.max_steps} steps")
        if time.thread_time() > self.deadline:
            raise self.limit_error(f"takes longer than {self.limits.max_seconds:g} seconds of processor time")

    def check_depth(self, depth: int) -> None:
        if depth > self.limits.max_depth:
            raise self.limit_error(f"reaches deeper than {self.limits.max_depth} levels")

    def limit_error(self, why: str) -> ArtifactQueryError:
        return ArtifactQueryError(f"the path {self.path} {why}; make it more specific", field="path")


class PathQuery:
    """A compiled JSONPath that can be applied to many records; `interrupt` is called now and then and may raise.

    Its methods raise `ArtifactQueryError` if a limit on steps, depth or time is exceeded.

    Raises:
        ArtifactQueryError: The path is not RFC 9535.
    """

    def __init__(
        self, path: str, limits: PathLimits | None = None, *, interrupt: Callable[[], None] | None = None
    ) -> None:
        if not is_instance(path, str):
            raise ArtifactQueryError(f"path must be text such as '$.name', got {type(path).__name__}", field="path")
        if len(path) > MAX_PATH_CHARS:
            raise ArtifactQueryError(
                f"path must have at most {MAX_PATH_CHARS} characters, got {len(path)}", field="path"
            )
        if not path.startswith("$"):
            raise _bad_path(path, ValueError("it must begin with $, the root"))
        self._meter = _Meter(path, limits or PathLimits(), interrupt)
        try:
            parsed = _parse(path)
            self._select = compile_path(parsed, self._meter)
            self._select_items = compile_item_path(parsed, self._meter)
        except (JSONPathError, RecursionError) as error:
            raise _bad_path(path, error) from error

    def select(self, record: object, limit: int | None = None) -> list[object]:
        """Return the values that the path selects in a record, at most `limit`."""
        return list(islice(self.find_values((record,)), limit))

    def find_values(self, records: Iterable[object]) -> Iterator[object]:
        """Yield the values that the path selects in each of many records."""
        select = self._select
        with self._translate_recursion():
            for record in records:
                yield from select(record, record)

    def find_records(self, records: Iterable[object]) -> Iterator[object]:
        """Yield those of many records in which the path selects something."""
        select = self._select
        with self._translate_recursion():
            for record in records:
                for _ in select(record, record):
                    yield record
                    break

    def find_items(self, array: object) -> Iterator[object]:
        """Yield the items of an array in which the path, which begins at the array, selects something."""
        with self._translate_recursion():
            yield from self._select_items(array, array)

    def check(self) -> None:
        """Check the limits between two pieces of work."""
        self._meter.check()

    @contextmanager
    def _translate_recursion(self) -> Generator[None]:
        try:
            yield
        except RecursionError as error:
            raise self._meter.limit_error("nests too deeply") from error


def _parse(path: str) -> JSONPath:
    parsed = JSONPathEnvironment(strict=True).compile(path)
    if not isinstance(parsed, JSONPath):
        raise JSONPathError("it combines several paths")
    return parsed


def _bad_path(path: str, error: Exception) -> ArtifactQueryError:
    reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error).split("\n", 1)[0]
    return ArtifactQueryError(
        f"{path!r} is not a JSONPath of RFC 9535: {reason}. Examples: $.name, $.items[0], $.items[*].id, "
        "$..price, $.items[?@.price > 10 && @.tag == 'new'].name",
        field="path",
    )
