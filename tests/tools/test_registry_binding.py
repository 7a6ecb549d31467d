from collections.abc import Callable

import pytest
from pydantic import BaseModel

from spindle.errors import InvalidContextError
from spindle.tools.declaration import Tool
from spindle.tools.registry import ToolRegistry


class Context:
    """Runs its handlers on ack and on nothing else, as every context does."""

    def __init__(self) -> None:
        self.handlers: list[Callable[[], object]] = []

    def on_ack(self, fn: Callable[[], object], /) -> Callable[[], object]:
        self.handlers.append(fn)
        return lambda: self.handlers.remove(fn)

    def ack(self) -> None:
        for handler in list(self.handlers):
            handler()


class Forgetful(Context):
    """Goes on calling those who unsubscribed."""

    def on_ack(self, fn: Callable[[], object], /) -> Callable[[], object]:
        self.handlers.append(fn)
        return lambda: None


class Query(BaseModel):
    q: str = ""


def answer(args: object, ctx: object, meta: object) -> str:
    return "done"


def make(name: str, *, ephemeral: bool = False) -> Tool:
    return Tool(
        name=name,
        description="A tool.",
        input_schema=Query,
        handler=answer,
        ephemeral=ephemeral,
    )


@pytest.fixture
def registry() -> ToolRegistry:
    return ToolRegistry([make("kept"), make("gone", ephemeral=True)])


def names(registry: ToolRegistry) -> list[str]:
    return [tool.name for tool in registry]


def test_ephemeral_tools_are_gone_when_ack_returns(registry: ToolRegistry) -> None:
    ctx = Context()
    registry.bind_context(ctx)
    assert names(registry) == ["kept", "gone"]
    ctx.ack()
    assert names(registry) == ["kept"]


def test_tools_registered_after_binding_are_pruned_too(registry: ToolRegistry) -> None:
    ctx = Context()
    registry.bind_context(ctx)
    registry.register(make("late", ephemeral=True))
    ctx.ack()
    assert names(registry) == ["kept"]


@pytest.mark.parametrize("kind", [Context, Forgetful])
def test_after_unsubscribing_nothing_is_pruned(registry: ToolRegistry, kind: type[Context]) -> None:
    ctx = kind()
    registry.bind_context(ctx)()
    ctx.ack()
    assert names(registry) == ["kept", "gone"]


def test_unsubscribing_twice_or_after_ack_is_harmless(registry: ToolRegistry) -> None:
    ctx = Context()
    unsubscribe = registry.bind_context(ctx)
    unsubscribe()
    unsubscribe()
    unsubscribe = registry.bind_context(ctx)
    ctx.ack()
    unsubscribe()
    unsubscribe()
    assert names(registry) == ["kept"]


def test_binding_twice_is_harmless_and_each_binding_ends_alone(registry: ToolRegistry) -> None:
    ctx = Context()
    first = registry.bind_context(ctx)
    registry.bind_context(ctx)
    first()
    ctx.ack()
    assert names(registry) == ["kept"]


def test_several_registries_are_pruned_in_the_order_they_were_bound() -> None:
    pruned: list[str] = []

    class Noting(ToolRegistry):
        def prune_ephemeral(self) -> list[str]:
            removed = super().prune_ephemeral()
            pruned.extend(removed)
            return removed

    ctx = Context()
    registries = [Noting([make(name, ephemeral=True)]) for name in "ab"]
    for registry in registries:
        registry.bind_context(ctx)
    ctx.ack()
    assert pruned == ["a", "b"]


def test_one_registry_bound_to_several_contexts_is_pruned_by_the_first_ack(registry: ToolRegistry) -> None:
    one, other = Context(), Context()
    registry.bind_context(one)
    registry.bind_context(other)
    other.ack()
    assert names(registry) == ["kept"]
    one.ack()
    assert names(registry) == ["kept"]


class AsyncContext:
    async def on_ack(self, fn: Callable[[], object]) -> None: ...


class Mute:
    def on_ack(self, fn: Callable[[], object]) -> None: ...


class NotCallable:
    on_ack = "soon"


@pytest.mark.parametrize("bad", [None, 5, {}, object(), Context, NotCallable(), Mute(), AsyncContext()])
def test_a_value_that_is_not_a_context_is_refused(registry: ToolRegistry, bad: Context) -> None:
    with pytest.raises(InvalidContextError) as caught:
        registry.bind_context(bad)
    assert caught.value.field == "ctx"
