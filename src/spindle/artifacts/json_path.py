"""JSONPath (RFC 9535) with limits on steps, depth and time; patterns take linear time, and no code is evaluated."""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Final, cast

import re2
from jsonpath import CompoundJSONPath, JSONPath, JSONPathEnvironment, JSONPathError, JSONPathMatch
from jsonpath.function_extensions import ExpressionType, FilterFunction
from jsonpath.parse import Parser
from jsonpath.segments import JSONPathChildSegment, JSONPathRecursiveDescentSegment, JSONPathSegment
from jsonpath.stream import TokenStream

from spindle.errors import ArtifactQueryError

MAX_PATH_CHARS: Final = 4_000
_TICKS_PER_CHECK = 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class PathLimits:
    """The work limits of one path."""

    max_steps: int = 20_000_000
    """Maximum number of visited nodes and comparisons."""
    max_depth: int = 200
    max_seconds: float = 20.0


class _Meter:
    """A counter of the steps of one path over all records, which enforces the limits."""

    def __init__(self, path: str, limits: PathLimits) -> None:
        self.path, self.limits, self.steps = path, limits, 0
        self.deadline = time.monotonic() + limits.max_seconds

    def tick(self) -> None:
        self.steps += 1
        if self.steps % _TICKS_PER_CHECK == 0:
            if self.steps > self.limits.max_steps:
                raise self.limit_error(f"needs more than {self.limits.max_steps} steps")
            if time.monotonic() > self.deadline:
                raise self.limit_error(f"takes longer than {self.limits.max_seconds:g} seconds")

    def limit_error(self, why: str) -> ArtifactQueryError:
        return ArtifactQueryError(f"the path {self.path} {why}; make it more specific", field="path")


class PathQuery:
    """A compiled JSONPath that can be applied to many records.

    Raises:
        ArtifactQueryError: The path is not RFC 9535.
    """

    def __init__(self, path: str, limits: PathLimits | None = None) -> None:
        if not isinstance(cast("object", path), str):
            raise ArtifactQueryError(f"path must be text such as '$.name', got {type(path).__name__}", field="path")
        if len(path) > MAX_PATH_CHARS:
            raise ArtifactQueryError(
                f"path must have at most {MAX_PATH_CHARS} characters, got {len(path)}", field="path"
            )
        if not path.startswith("$"):
            raise _bad_path(path, ValueError("it must begin with $, the root"))
        self._meter = _Meter(path, limits or PathLimits())
        self._compiled: JSONPath | CompoundJSONPath
        try:
            self._compiled = _Environment(self._meter).compile(path)
        except (JSONPathError, RecursionError) as error:
            raise _bad_path(path, error) from error

    def select(self, record: Any, limit: int | None = None) -> list[Any]:
        """Return the values that the path selects in a record, at most `limit`.

        Raises:
            ArtifactQueryError: A limit on steps, depth or time was exceeded.
        """
        # The library would parse a scalar as JSON text; only containers have children to select.
        if not isinstance(record, dict | list):
            return [record] if isinstance(self._compiled, JSONPath) and self._compiled.empty() else []
        found = self._compiled.finditer(cast("Any", record))
        try:
            return [match.obj for match in islice(found, limit)]
        except RecursionError as error:
            raise self._meter.limit_error("nests too deeply") from error
        except JSONPathError as error:
            raise _bad_path(self._meter.path, error) from error


def _bad_path(path: str, error: Exception) -> ArtifactQueryError:
    reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error).split("\n", 1)[0]
    return ArtifactQueryError(
        f"{path!r} is not a JSONPath of RFC 9535: {reason}. Examples: $.name, $.items[0], $.items[*].id, "
        "$..price, $.items[?@.price > 10 && @.tag == 'new'].name",
        field="path",
    )


class _Environment(JSONPathEnvironment):
    """A strict RFC 9535 environment in which every step is metered."""

    def __init__(self, meter: _Meter) -> None:
        self.meter = meter
        self.parser_class = _MeteredParser
        super().__init__(strict=True)

    def setup_function_extensions(self) -> None:
        super().setup_function_extensions()
        self.function_extensions["match"] = _Pattern(whole=True)
        self.function_extensions["search"] = _Pattern(whole=False)

    def compare(self, left: object, operator: str, right: object) -> bool:
        self.meter.tick()
        return super().compare(left, operator, right)

    def is_truthy(self, obj: object) -> bool:
        self.meter.tick()
        return super().is_truthy(obj)


class _MeteredParser(Parser):
    """A parser that replaces the library's segments by the metered ones below."""

    def parse_query(self, stream: TokenStream) -> Iterable[JSONPathSegment]:
        for segment in super().parse_query(stream):
            kind = _Descendants if isinstance(segment, JSONPathRecursiveDescentSegment) else _Children
            yield kind(env=segment.env, token=segment.token, selectors=segment.selectors)


class _Children(JSONPathChildSegment):
    def resolve(self, nodes: Iterable[JSONPathMatch]) -> Iterator[JSONPathMatch]:
        meter = cast("_Environment", self.env).meter
        for node in nodes:
            meter.tick()
            for selector in self.selectors:
                for found in selector.resolve(node):
                    meter.tick()
                    # The library stores every child of a node, which is never used and keeps whole documents alive.
                    node.children.clear()
                    yield found


class _Descendants(JSONPathRecursiveDescentSegment):
    def resolve(self, nodes: Iterable[JSONPathMatch]) -> Iterator[JSONPathMatch]:
        meter = cast("_Environment", self.env).meter
        for node in nodes:
            for visited in _walk(node, meter):
                for selector in self.selectors:
                    for found in selector.resolve(visited):
                        meter.tick()
                        visited.children.clear()
                        yield found


def _walk(top: JSONPathMatch, meter: _Meter) -> Iterator[JSONPathMatch]:
    """Yield a node and all containers below it, parents first, in document order."""
    waiting = [top]
    while waiting:
        node = waiting.pop()
        meter.tick()
        if len(node.parts) > meter.limits.max_depth:
            raise meter.limit_error(f"reaches deeper than {meter.limits.max_depth} levels")
        yield node
        below = [node.new_child(value, key) for key, value in _members(node.obj)]
        waiting.extend(reversed(below))


def _members(value: object) -> Iterable[tuple[int | str, object]]:
    """Return the containers directly inside a value, with their keys."""
    if isinstance(value, dict):
        every: Iterable[tuple[int | str, Any]] = cast("Mapping[str, Any]", value).items()
    else:
        every = enumerate(cast("list[Any]", value)) if isinstance(value, list) else ()
    return ((key, cast("object", inner)) for key, inner in every if isinstance(inner, dict | list))


class _Pattern(FilterFunction):
    """The functions `match` and `search` of RFC 9535, in linear time."""

    @property
    def arg_types(self) -> list[ExpressionType]:
        return [ExpressionType.VALUE, ExpressionType.VALUE]

    @property
    def return_type(self) -> ExpressionType:
        return ExpressionType.LOGICAL

    def __init__(self, *, whole: bool) -> None:
        self.whole = whole

    def __call__(self, value: object, pattern: object) -> bool:
        if not isinstance(value, str) or not isinstance(pattern, str):
            return False
        compiled = _compile_pattern(pattern)
        try:
            found = compiled.fullmatch(value) if self.whole else compiled.search(value)
        except UnicodeEncodeError:
            return False
        return found is not None


@lru_cache(maxsize=8)
def _compile_pattern(pattern: str) -> Any:
    module = cast("Any", re2)
    options = module.Options()
    options.log_errors = False
    options.max_mem = 8 << 20
    try:
        return module.compile(_dots_without_newlines(pattern), options)
    except (module.error, UnicodeEncodeError) as error:
        raise ArtifactQueryError(
            f"the pattern {pattern!r} in the path is invalid: {error}. The dialect is RE2 (linear time): "
            "no look-around, no back-references",
            field="path",
        ) from error


def _dots_without_newlines(pattern: str) -> str:
    # In I-Regexp a dot matches neither \n nor \r; in RE2 only \n is excluded.
    parts: list[str] = []
    escaped = in_class = False
    for char in pattern:
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char in "[]":
            in_class = char == "["
        elif char == "." and not in_class:
            parts.append(r"[^\n\r]")
            continue
        parts.append(char)
    return "".join(parts)
