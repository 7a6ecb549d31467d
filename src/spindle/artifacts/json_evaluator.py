"""Evaluation of a parsed JSONPath (RFC 9535): its parts become functions, compiled once and applied to many records.

Visited nodes and comparisons are counted by a `Meter`. A container is a dict or a list, or one of `json_stream`, which
reads its members from a large document as they are used.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence, ValuesView
from typing import Protocol, TypeAlias, cast

from jsonpath import JSONPath
from jsonpath.filter import (
    BaseExpression,
    FilterExpression,
    FilterExpressionLiteral,
    FilterQuery,
    FunctionExtension,
    InfixExpression,
    Nil,
    PrefixExpression,
    RootFilterQuery,
)
from jsonpath.segments import JSONPathRecursiveDescentSegment, JSONPathSegment
from jsonpath.selectors import Filter, IndexSelector, JSONPathSelector, NameSelector, SliceSelector, WildcardSelector

from spindle.artifacts.grep import MAX_LINE_BYTES
from spindle.artifacts.json_nodes import (
    NOTHING,
    compile_pattern,
    count_nodes,
    get_length,
    get_only_value,
    has_nodes,
    is_less,
    list_children,
    slice_node,
)
from spindle.artifacts.json_stream import LargeArray, LargeObject
from spindle.errors import ArtifactQueryError
from spindle.json_types import is_array, is_object


class Meter(Protocol):
    """A counter of steps that raises an error if there are too many, or if a node is too deep."""

    def tick(self, steps: int = 1) -> None:
        """Count steps."""

    def check_depth(self, depth: int) -> None:
        """Check the depth of a node."""


Find: TypeAlias = Callable[[object, object], object]
"""Returns one value for a node and the root of its record, or `NOTHING`."""
Select: TypeAlias = Callable[[object, object], Iterable[object]]
"""Returns the values that are selected below a node, for the node and the root of its record."""
Test: TypeAlias = Callable[[object, object], bool]
Segment: TypeAlias = Callable[[Iterable[object], object], Iterator[object]]

_CHARS_PER_STEP = 256
_COUNTED_AT_ONCE = 64
_SIZED = (list, ValuesView)
_CONTAINERS: tuple[type, ...] = (dict, list, LargeObject, LargeArray)


def compile_path(path: JSONPath, meter: Meter) -> Select:
    """Return a function that selects what a path selects."""
    return _Compiler(meter).compile_segments(path.segments)


def compile_item_path(path: JSONPath, meter: Meter) -> Select:
    """Return a function that selects the items of an array in which a path of the whole array finds something."""
    return _Compiler(meter).compile_item_filter(path.segments)


class _Compiler:
    """A compiler of the parts of a path to functions that share one meter."""

    def __init__(self, meter: Meter) -> None:
        self._tick, self._check_depth = meter.tick, meter.check_depth

    def compile_segments(self, segments: Sequence[JSONPathSegment]) -> Select:
        singular = 0
        while singular < len(segments) and _is_singular(segments[singular]):
            singular += 1
        find = _compile_singular(segments[:singular])
        rest, tick = [self._compile_segment(segment) for segment in segments[singular:]], self._tick

        def select(node: object, root: object) -> Iterable[object]:
            tick()
            found = find(node, root)
            if found is NOTHING:
                return ()
            nodes: Iterable[object] = (found,)
            for segment in rest:
                nodes = segment(nodes, root)
            return nodes

        return select

    def compile_item_filter(self, segments: Sequence[JSONPathSegment]) -> Select:
        if not segments:
            return lambda array, _: list_children(array)
        if isinstance(segments[0], JSONPathRecursiveDescentSegment):
            select = self.compile_segments(segments)
            # Alone in an array, an item is where the path would meet it.
            return lambda array, root: (item for item in list_children(array) if has_nodes(select([item], root)))
        choose, rest = self._compile_segment(segments[0]), self.compile_segments(segments[1:])
        return lambda array, root: (item for item in choose((array,), root) if has_nodes(rest(item, root)))

    def _compile_segment(self, segment: JSONPathSegment) -> Segment:
        selectors = [self._compile_selector(selector) for selector in segment.selectors]
        visit = self._visit if isinstance(segment, JSONPathRecursiveDescentSegment) else None

        def resolve(nodes: Iterable[object], root: object) -> Iterator[object]:
            for node in nodes:
                for visited in visit(node) if visit else (node,):
                    for select in selectors:
                        yield from select(visited, root)

        return resolve

    def _visit(self, top: object) -> Iterator[object]:
        """Yield a node and all containers below it, parents first, in document order."""
        self._tick()
        yield top
        waiting = [iter(list_children(top))]
        while waiting:
            inner = next((value for value in self._count_each(waiting[-1]) if isinstance(value, _CONTAINERS)), None)
            if inner is None:
                waiting.pop()
                continue
            self._check_depth(len(waiting))
            yield inner
            waiting.append(iter(list_children(inner)))

    def _compile_selector(self, selector: JSONPathSelector) -> Select:
        if isinstance(selector, NameSelector | IndexSelector):
            step, tick = _compile_step(selector), self._tick

            def select_one(node: object, _: object) -> Iterable[object]:
                tick()
                found = step(node)
                return () if found is NOTHING else (found,)

            return select_one
        if isinstance(selector, WildcardSelector):
            return lambda node, _: self._count(list_children(node))
        if isinstance(selector, SliceSelector):
            cut = selector.slice
            return lambda node, _: self._count(slice_node(node, cut))
        if isinstance(selector, Filter):
            test = self._compile_test(selector.expression)
            return lambda node, root: (value for value in self._count(list_children(node)) if test(value, root))
        raise _not_in_rfc(selector)

    def _count(self, nodes: Iterable[object]) -> Iterable[object]:
        if isinstance(nodes, _SIZED) and len(nodes) <= _COUNTED_AT_ONCE:
            self._tick(len(nodes))
            return nodes
        return self._count_each(nodes)

    def _count_each(self, nodes: Iterable[object]) -> Iterator[object]:
        tick = self._tick
        for node in nodes:
            tick()
            yield node

    def _compile_test(self, expression: BaseExpression) -> Test:
        if isinstance(expression, FilterExpression):
            return self._compile_test(expression.expression)
        if isinstance(expression, FilterQuery):
            nodes = self._compile_nodes(expression)
            return lambda node, root: has_nodes(nodes(node, root))
        if isinstance(expression, PrefixExpression) and expression.operator == "!":
            test = self._compile_test(expression.right)
            return lambda node, root: not test(node, root)
        if isinstance(expression, InfixExpression):
            return self._compile_infix(expression)
        if isinstance(expression, FunctionExtension) and expression.name in ("match", "search"):
            value, pattern = (self._compile_value(each) for each in expression.args)
            is_whole = expression.name == "match"
            return lambda node, root: self._matches(value(node, root), pattern(node, root), is_whole=is_whole)
        raise _not_in_rfc(expression)

    def _compile_infix(self, expression: InfixExpression) -> Test:
        if expression.operator in ("&&", "||"):
            first, second = self._compile_test(expression.left), self._compile_test(expression.right)
            if expression.operator == "&&":
                return lambda node, root: first(node, root) and second(node, root)
            return lambda node, root: first(node, root) or second(node, root)
        left, right = self._compile_value(expression.left), self._compile_value(expression.right)
        equal, less = self._is_equal, is_less
        match expression.operator:
            case "==":
                return lambda node, root: equal(left(node, root), right(node, root))
            case "!=":
                return lambda node, root: not equal(left(node, root), right(node, root))
            case "<":
                return lambda node, root: less(left(node, root), right(node, root))
            case ">":
                return lambda node, root: less(right(node, root), left(node, root))
            case "<=":
                return lambda node, root: self._is_at_most(left(node, root), right(node, root))
            case ">=":
                return lambda node, root: self._is_at_most(right(node, root), left(node, root))
            case _:
                raise _not_in_rfc(expression)

    def _compile_value(self, expression: BaseExpression) -> Find:
        if isinstance(expression, Nil):
            return lambda _, __: None
        if isinstance(expression, FilterExpressionLiteral):
            literal = cast("FilterExpressionLiteral[object]", expression).value
            return lambda _, __: literal
        if isinstance(expression, FilterQuery) and expression.path.singular_query():
            find = _compile_singular(expression.path.segments)
            return _remember_root(find) if isinstance(expression, RootFilterQuery) else find
        if isinstance(expression, FunctionExtension) and expression.name == "length":
            value = self._compile_value(expression.args[0])
            return lambda node, root: get_length(value(node, root))
        if isinstance(expression, FunctionExtension) and expression.name in ("count", "value"):
            nodes = self._compile_nodes(expression.args[0])
            pick = count_nodes if expression.name == "count" else get_only_value
            return lambda node, root: pick(nodes(node, root))
        raise _not_in_rfc(expression)

    def _compile_nodes(self, expression: BaseExpression) -> Select:
        if not isinstance(expression, FilterQuery):
            raise _not_in_rfc(expression)
        select = self.compile_segments(expression.path.segments)
        if isinstance(expression, RootFilterQuery):
            return lambda _, root: select(root, root)
        return select

    def _is_at_most(self, left: object, right: object) -> bool:
        return is_less(left, right) or self._is_equal(left, right)

    def _is_equal(self, left: object, right: object) -> bool:
        self._tick()
        if is_array(left) and is_array(right):
            return len(left) == len(right) and all(map(self._is_equal, left, right))
        if is_object(left) and is_object(right):
            return left.keys() == right.keys() and all(self._is_equal(left[name], right[name]) for name in left)
        if isinstance(left, bool) or isinstance(right, bool):
            return left is right
        if isinstance(left, LargeArray | LargeObject):
            return left.equals(right, self._is_equal)
        if isinstance(right, LargeArray | LargeObject):
            return right.equals(left, self._is_equal)
        return left == right

    def _matches(self, value: object, pattern: object, *, is_whole: bool) -> bool:
        if not isinstance(value, str) or not isinstance(pattern, str):
            return False
        self._tick(1 + len(value) // _CHARS_PER_STEP)
        if len(value) > MAX_LINE_BYTES:
            why = f"a text of {len(value)} characters is too long for match() and search(); use artifact_grep"
            raise ArtifactQueryError(why, field="path")
        compiled = compile_pattern(pattern)
        try:
            found = compiled.fullmatch(value) if is_whole else compiled.search(value)
        except UnicodeEncodeError:
            return False
        return found is not None


def _is_singular(segment: JSONPathSegment) -> bool:
    return (
        not isinstance(segment, JSONPathRecursiveDescentSegment)
        and len(segment.selectors) == 1
        and isinstance(segment.selectors[0], NameSelector | IndexSelector)
    )


def _compile_singular(segments: Sequence[JSONPathSegment]) -> Find:
    steps = [_compile_step(segment.selectors[0]) for segment in segments]
    if not steps:
        return lambda node, _: node
    if len(steps) == 1:
        only = steps[0]
        return lambda node, _: only(node)

    def find(node: object, _: object) -> object:
        for step in steps:
            node = step(node)
            if node is NOTHING:
                break
        return node

    return find


def _compile_step(selector: JSONPathSelector) -> Callable[[object], object]:
    if isinstance(selector, NameSelector):
        name = selector.name

        def find_member(node: object) -> object:
            if is_object(node) or isinstance(node, LargeObject):
                return node.get(name, NOTHING)
            return NOTHING

        return find_member
    if isinstance(selector, IndexSelector):
        index = selector.index
        return lambda node: next(iter(slice_node(node, slice(index, index + 1 or None))), NOTHING)
    raise _not_in_rfc(selector)


def _remember_root(find: Find) -> Find:
    """Look up a value of the root once for each record, not for each node that is compared with it."""
    known: list[object] = [NOTHING, NOTHING]

    def find_once(_: object, root: object) -> object:
        if known[0] is not root:
            known[:] = root, find(root, root)
        return known[1]

    return find_once


def _not_in_rfc(part: object) -> ArtifactQueryError:
    return ArtifactQueryError(f"{part} is not in RFC 9535", field="path")
