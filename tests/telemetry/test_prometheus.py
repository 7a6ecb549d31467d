"""Metrics in the text format of Prometheus."""

import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families

from spindle import tool
from spindle.errors import MissingExtraError
from spindle.telemetry import prometheus
from spindle.telemetry.prometheus import CallMetrics, Family, render_metrics
from tests.execution.calling import call, execute, giving

pytestmark = pytest.mark.anyio
MAX_TOOLS = 20


@tool
def add(a: int) -> int:
    """Add one."""
    return a + 1


def read(page: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return the samples of a page by name and labels."""
    families = text_string_to_metric_families(page.decode())
    return {
        (each.name, tuple(sorted(each.labels.items()))): each.value for family in families for each in family.samples
    }


async def test_calls_are_counted_by_tool_and_code_and_invented_names_share_a_label() -> None:
    metrics = CallMetrics()
    invented = [call(f"invented_{number}", call_id=f"i{number}") for number in range(20)]
    calls = [call("add", {"a": 1}), call("add", {"a": "x"}, "c2"), *invented]
    await execute([add], calls, interceptors=[metrics])

    found = read(render_metrics([], metrics))

    counted = {labels: value for (name, labels), value in found.items() if name == "spindle_tool_calls_total"}
    assert counted == {
        (("code", "ok"), ("tool", "add")): 1,
        (("code", "input_invalid"), ("tool", "add")): 1,
        (("code", "not_available"), ("tool", "_OTHER")): 20,
    }
    assert found["spindle_tool_duration_seconds_count", (("tool", "add"),)] == 1


async def test_the_number_of_labels_is_bounded_whatever_names_a_server_chooses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prometheus, "MAX_TOOLS", MAX_TOOLS)
    metrics = CallMetrics()
    for number in range(3):
        tools = [giving(1, f"t{number}_{each}") for each in range(MAX_TOOLS // 2)]
        calls = [call(each.name, call_id=each.name) for each in tools]
        await execute(tools, calls, interceptors=[metrics])

    found = read(render_metrics([], metrics))

    names = {dict(labels)["tool"] for name, labels in found if name == "spindle_tool_calls_total"}
    assert len(names) == MAX_TOOLS + 1
    assert found["spindle_tool_calls_total", (("code", "ok"), ("tool", "_OTHER"))] == MAX_TOOLS // 2


def test_hostile_label_values_stay_inside_their_quotes() -> None:
    evil = 'x"} 1\nspindle_fake 1\n\\'
    page = render_metrics([Family(name="spindle_a", help="A\nB", values=[({"server": evil}, 2), ({"server": "b"}, 3)])])

    assert {name for name, _ in read(page)} == {"spindle_a"}
    assert list(read(page).values()) == [2, 3]


def test_a_page_can_be_rendered_again_and_empty_families_are_fine() -> None:
    metrics = CallMetrics()
    families = [
        Family(name="spindle_a", help="A"),
        Family(name="spindle_b", help="B", kind="counter", values=[({}, 1)]),
    ]

    assert render_metrics(families, metrics) == render_metrics(families, metrics)
    assert read(render_metrics(families))["spindle_b_total", ()] == 1


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    with pytest.raises(MissingExtraError, match="'metrics'"):
        render_metrics([])
