"""The difference of two texts."""

from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.inspector import line_diff
from spindle.inspector.line_diff import align, compare_texts
from tests.fuzzing import examples

lines = st.lists(st.sampled_from("abc"), max_size=12)


@settings(max_examples=examples(60), deadline=None)
@given(left=lines, right=lines)
def test_steps_lead_from_one_text_to_the_other(left: list[str], right: list[str]) -> None:
    steps, is_aligned = align(left, right)

    assert is_aligned
    assert [text for kind, text in steps if kind != "added"] == left
    assert [text for kind, text in steps if kind != "removed"] == right
    assert sum(kind != "same" for kind, _ in steps) == len(left) + len(right) - 2 * count_common(left, right)


def count_common(left: list[str], right: list[str]) -> int:
    """Return the length of the longest common part, found by the textbook's table."""
    table = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i, one in enumerate(left, 1):
        for j, two in enumerate(right, 1):
            table[i][j] = table[i - 1][j - 1] + 1 if one == two else max(table[i - 1][j], table[i][j - 1])
    return table[-1][-1]


def test_unchanged_parts_are_folded_and_lines_numbered() -> None:
    left = "\n".join(f"line {number}" for number in range(1, 101))
    diff = compare_texts(left, left.replace("line 50\n", "line fifty\n"))

    assert [(line.kind, line.left, line.right, line.count) for line in diff.lines] == [
        ("folded", None, None, 46),
        *(("same", number, number, 1) for number in (47, 48, 49)),
        ("removed", 50, None, 1),
        ("added", None, 50, 1),
        *(("same", number, number, 1) for number in (51, 52, 53)),
        ("folded", None, None, 47),
    ]
    assert (diff.is_same, diff.is_cut, diff.is_aligned) == (False, False, True)


def test_texts_that_differ_too_much_are_not_aligned() -> None:
    left, right = ("\n".join(f"{side}{number}" for number in range(600)) for side in "ab")
    diff = compare_texts(left, right)

    assert not diff.is_aligned
    assert [line.kind for line in diff.lines] == ["removed"] * 600 + ["added"] * 600


def test_long_texts_and_lines_are_cut() -> None:
    left = "\n".join(map(str, range(line_diff.MAX_LINES + 10)))
    long = compare_texts("x" * 5_000, "y")

    assert compare_texts(left, left + "\nmore").is_cut
    assert len(long.lines[0].text) == line_diff.MAX_LINE_CHARS
    assert compare_texts("a", "a").is_same
