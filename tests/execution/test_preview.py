"""Previews: never longer than their room, true about what they leave out, and unmoved by hostile values."""

import csv
import json
import re
import sys
from collections import OrderedDict
from collections.abc import Iterator
from datetime import date
from io import StringIO
from typing import Any, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spindle.execution.preview import Kind, detect_kind, preview
from tests.fuzzing import examples

ROWS = [{"id": n, "name": f"name {n}", "tags": ["a", "b"]} for n in range(1000)]
CSV = "id,name,price\n" + "".join(f"{n},n{n},{n * 2}\n" for n in range(1000))

kinds = st.sampled_from(cast("list[Kind]", ["text", "json", "table"]))
words = st.text(alphabet=st.characters(exclude_characters="…", exclude_categories=["Cs"]), max_size=60)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(words, inner, max_size=12),
    max_leaves=60,
)


def as_json(text: str, cap: int, structured: Any = None) -> Any:
    """What the preview of a JSON text says; it must be JSON itself and fit."""
    shown = preview(text, cap, structured=structured, kind="json")
    assert len(shown) <= cap
    return json.loads(shown)


def check_true(shown: Any, value: Any) -> None:
    """Fail unless `shown` is `value`, or parts of it with right counts of the rest."""
    if shown == "…":
        return
    if isinstance(value, str):
        cut = re.fullmatch(r"(.*)… \((\d+) chars\)", shown, re.DOTALL)
        assert shown == value or (cut and value.startswith(cut[1]) and int(cut[2]) == len(value))
    elif isinstance(value, list):
        check_list(shown, cast("list[Any]", value))
    elif isinstance(value, dict):
        check_object(shown, cast("dict[str, Any]", value))
    else:
        assert repr(shown) == repr(value)


def check_list(shown: list[Any], value: list[Any]) -> None:
    items = list(shown)
    if items and isinstance(items[-1], str) and items[-1].startswith("… "):
        check_count(items.pop().removeprefix("… "), len(items), len(value))
    else:
        assert len(items) == len(value)
    for item, whole in zip(items, value, strict=False):
        check_true(item, whole)


def check_object(shown: dict[str, Any], value: dict[str, Any]) -> None:
    entries = dict(shown)
    if "…" in entries:
        note = entries.pop("…")
        check_count(note, len(entries), len(value))
    else:
        assert len(entries) == len(value)
    assert list(entries) == list(value)[: len(entries)]
    for key, item in entries.items():
        check_true(item, value[key])


def check_count(note: str, shown: int, total: int) -> None:
    assert note == (f"{total - shown} more of {total}" if shown else f"{total} left out")


@given(st.text(alphabet=st.characters()), st.integers(-3, 200), kinds)
@settings(deadline=None)
def test_no_text_is_ever_shown_longer_than_its_room(text: str, cap: int, kind: Kind) -> None:
    shown = preview(text, cap, kind=kind)

    assert len(shown) <= max(cap, 0)
    assert shown == preview(text, cap, kind=kind)
    assert shown == text or len(text) > cap


@given(st.text(), st.integers(0, 200))
@settings(deadline=None)
def test_plain_text_is_its_first_characters(text: str, cap: int) -> None:
    assert preview(text, cap, kind="text") == text[:cap]


@given(st.text(alphabet='{}[]",:;\t\n\r \ufeff1ab\ud800\\', max_size=80))
@settings(deadline=None)
def test_every_text_has_a_kind_and_can_be_shown_as_it(text: str) -> None:
    assert len(preview(text * 3, 50, kind=detect_kind(text * 3))) <= 50


@pytest.mark.slow
@given(values, st.integers(40, 600))
@settings(max_examples=examples(300), deadline=None)
@example([0] * 100, 40)
@example({f"key number {n}": [n] * 9 for n in range(40)}, 60)
@example([[["x" * 500] * 10] * 20] * 3, 8000)
@example({"k" * 90: "\x00" * 500, "b": {"c": "\x00" * 500}}, 150)
def test_a_preview_of_json_is_json_that_says_nothing_false(value: Any, cap: int) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=2)

    if len(text) > cap:
        check_true(as_json(text, cap), value)
        assert as_json(text, cap) == as_json(text, cap, structured=value)


def test_a_byte_order_mark_does_not_matter() -> None:
    assert as_json("\ufeff" + json.dumps(ROWS), 300) == as_json(json.dumps(ROWS), 300)


def test_json_that_is_only_too_long_for_its_spaces_is_shown_whole() -> None:
    assert as_json(json.dumps(ROWS[:5], indent=8), 400) == ROWS[:5]


def test_an_array_shows_its_first_items_whole_and_counts_the_others() -> None:
    *items, note = as_json(json.dumps(ROWS), 500)

    assert items == ROWS[: len(items)]
    assert len(items) >= 9
    assert note == f"… {1000 - len(items)} more of 1000"


def test_an_object_keeps_all_its_keys() -> None:
    value = {
        "total": 1000,
        "rows": ROWS,
        "note": "so long " * 500,
        "by_id": {str(n): n for n in range(500)},
        "ok": True,
    }

    shown = as_json(json.dumps(value), 400)

    assert list(shown) == list(value)
    assert (shown["total"], shown["ok"]) == (1000, True)
    check_true(shown, value)


def test_a_map_of_many_records_shows_a_few_of_them_rather_than_bare_keys() -> None:
    value = {f"id-{n}": row for n, row in enumerate(ROWS)}

    shown = as_json(json.dumps(value), 400)

    assert shown["id-0"] == ROWS[0]
    assert len(shown) > 3


def test_keys_without_values_are_better_than_nothing() -> None:
    shown = as_json(json.dumps({f"a_rather_long_key_{n}": [0] * 99 for n in range(9)}), 60)

    assert "a_rather_long_key_0" in shown


def test_siblings_have_the_same_room_and_what_a_small_one_leaves_is_used() -> None:
    shown = as_json(json.dumps({"a": "x" * 9000, "b": 1, "c": "y" * 9000}), 1000)

    assert len(shown["a"]) == len(shown["c"]) > 480


@pytest.mark.parametrize("cap", [300, 3000, 30_000])
def test_the_room_is_used(cap: int) -> None:
    assert len(preview(json.dumps(ROWS), cap, kind="json")) > cap - 80
    assert len(preview(CSV * 9, cap, kind="table")) > cap - 40


def test_a_long_string_says_how_long_it_is_and_no_escape_is_split() -> None:
    for cap in range(60, 90):
        shown = preview(json.dumps(["\n\x00é" * 1000]), cap, kind="json")

        assert "… (3000 chars)" in json.loads(shown)[0]
        assert cap - 7 <= len(shown) <= cap


def test_a_hostile_key_is_shown_in_part() -> None:
    shown = as_json(json.dumps({"k" * 10_000: 1, "b": 2}), 200)

    assert shown["b"] == 2
    assert any(key.endswith("… (10000 chars)") for key in shown)


@pytest.mark.parametrize("cap", [40, 500, pytest.param(80_000, marks=pytest.mark.slow)])
def test_nesting_has_no_end_but_the_preview_has(cap: int) -> None:
    endless: list[Any] = [1]
    endless.append(endless)
    doubled: Any = "x"
    for _ in range(200):
        doubled = {"left": doubled, "right": [doubled]}
    deep: Any = 0
    for _ in range(100_000):
        deep = [deep]

    for value in (endless, [doubled], deep, [deep, 1]):
        assert as_json("[" + " " * cap, cap, structured=value)


def test_a_text_that_is_nested_too_deeply_to_be_read_is_cut_as_text() -> None:
    text = "[" * 5000 + "]" * 5000

    assert preview(text, 100, kind="json") == "[" * 100


def test_integers_too_long_to_be_written_are_described() -> None:
    assert as_json("[" + " " * 99, 99, structured=[1, 10**5000]) == [1, "… integer of about 5000 digits"]


class Rude(dict[str, int]):
    def __iter__(self) -> Iterator[str]:
        sys.exit(1)


STRANGE: list[Any] = [date(2026, 1, 1), Rude(a=1), {1: "one"}, {2}, b"x", OrderedDict([("a", 1)]), object()]


@pytest.mark.parametrize("strange", STRANGE)
@pytest.mark.parametrize("nested", [0, 1, 200])
def test_a_structure_that_is_not_plain_json_is_ignored_in_favour_of_the_text(strange: Any, nested: int) -> None:
    text = json.dumps(ROWS)

    shown = preview(text, 300, structured=[strange] + [0] * nested, kind="json")

    assert shown == preview(text, 300, kind="json")


@pytest.mark.parametrize("structured", [{"other": "thing"}, "x", 5])
def test_a_value_of_another_shape_than_the_text_is_not_believed(structured: Any) -> None:
    assert as_json(json.dumps(ROWS), 300, structured=structured)[0] == ROWS[0]


@pytest.mark.parametrize("text", ["[1, 2, " + "3" * 99, "{not json}" * 20, "[1]" * 50, '{"a": NaN}' + " " * 99])
def test_text_that_only_looks_like_json_is_truncated_as_text(text: str) -> None:
    assert preview(text, 50, kind="json") == text[:50]


def test_with_hardly_any_room_everything_is_text() -> None:
    text = json.dumps(ROWS)

    assert preview(text, 39, kind="json") == text[:39]
    assert preview(CSV, 39, kind="table") == CSV[:39]


def test_a_table_shows_its_header_its_first_rows_and_the_last() -> None:
    assert preview(CSV, 88, kind="table") == (
        "id,name,price\n0,n0,0\n1,n1,2\n2,n2,4\n3,n3,6\n[… 995 more of 1000 rows]\n999,n999,1998"
    )


def test_json_lines_have_no_header() -> None:
    text = "\n".join(map(json.dumps, ROWS))

    *first, note, last = preview(text, 300, kind="table").split("\n")

    assert [json.loads(line) for line in first] == ROWS[: len(first)]
    assert note == f"[… {999 - len(first)} more of 1000 rows]"
    assert json.loads(last) == ROWS[-1]


def test_lines_are_counted_if_cells_may_span_lines() -> None:
    text = 'id,note\n1,"two\nlines"\n' + "2,x\n" * 200

    assert "of 202 lines]" in preview(text, 80, kind="table")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_line_is_whole_or_not_there(end: str) -> None:
    text = end.join(f"{n},{'x' * (n % 40)}" for n in range(500)) + end
    lines = set(text.split("\n"))

    for cap in range(40, 400, 3):
        shown = preview(text, cap, kind="table").split("\n")
        assert [line for line in shown if not line.startswith("[…")] == [line for line in shown if line in lines]


cells = st.integers(0, 10**6).map(str) | st.from_regex(r"[a-z]{0,30}", fullmatch=True)


@given(st.lists(st.tuples(cells, cells), min_size=5, max_size=60), st.integers(40, 300))
@settings(deadline=None)
def test_the_rows_of_a_table_add_up(rows: list[tuple[str, str]], cap: int) -> None:
    text = "a,b\n" + "".join(f"{a},{b}\n" for a, b in rows)

    shown = preview(text, cap, kind="table")

    assert len(shown) <= cap
    note = re.search(r"\n\[… (\d+) more of (\d+) rows\]", shown)
    if len(text) > cap and note:
        assert int(note[2]) == len(rows)
        assert int(note[1]) + len(shown.split("\n")) - 2 == len(rows)


def test_a_table_without_room_for_a_row_is_cut_as_text() -> None:
    text = "a,b\n" + ("x" * 200 + ",y\n") * 9

    assert preview(text, 100, kind="table") == text[:100]


TSV = StringIO()
csv.writer(TSV, delimiter="\t").writerows([("name", "unit price (€)"), ("tea", "1"), ("milk, cold", "2")])


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "text"),
        ("Dear all,\n\nplease note, that\n", "text"),
        ("one, two\nthree, four\nfive, six\n", "text"),
        ("2026-01-01 10:00:00,123 INFO started\n" * 9, "text"),
        ("[INFO] started\n[INFO] done\n[INFO] bye\n", "text"),
        ("[warn] half a line", "text"),
        ("{{ template }} and more", "text"),
        ("def f(a,b):\n    return a,b\n\nprint(f(1,2))\n", "text"),
        ("put(a,b)\nput(c,d)\nput(e,f)\n", "text"),
        ("\tif x:\n\t\tgo()\n\treturn\n", "text"),
        ("a,b\n", "text"),
        ("a,a\n1,2\n3,4\n", "text"),
        ("a,b\n1,2\n3,4,5\n", "text"),
        ('a,b\n1,"open\n3,4\n', "text"),
        (json.dumps(ROWS), "json"),
        (json.dumps(ROWS, indent=2), "json"),
        ("\ufeff\n  " + json.dumps(ROWS) + "\n\n", "json"),
        ("{}", "json"),
        ("\n".join(map(json.dumps, ROWS)), "table"),
        ("[1,2]\n[3,4]\n[5,6]", "table"),
        (CSV, "table"),
        (CSV.replace("\n", "\r\n"), "table"),
        (CSV.replace(",", ";"), "table"),
        ('\ufeffid,note\n1,"a, b"\n2,c\n', "table"),
        (TSV.getvalue(), "table"),
    ],
)
def test_a_kind_is_guessed_from_the_first_lines(text: str, kind: Kind) -> None:
    assert detect_kind(text) == kind


def test_a_structured_value_confirms_what_begins_like_json() -> None:
    assert detect_kind('{"a": 1', {"a": 1}) == "json"
    assert detect_kind('{"a": 1', None) == "text"
    assert detect_kind("a report", {"a": 1}) == "text"
