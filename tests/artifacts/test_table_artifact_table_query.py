import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.artifacts.table_artifact import (
    Column,
    Statement,
    count_groups,
    filter_rows,
    find_column,
    quote_identifier,
    select_rows,
    sort_rows,
)
from spindle.errors import ArtifactQueryError

KNOWN = [Column("id", "BIGINT"), Column('odd "name', "VARCHAR"), Column("when", "DATE"), Column("ok", "BOOLEAN")]


def test_names_are_quoted_and_values_are_parameters() -> None:
    assert filter_rows('odd "name', "eq", "'; DROP", KNOWN, 5) == Statement(
        "*", 'WHERE CAST("odd ""name" AS VARCHAR) = ? LIMIT ? OFFSET ?', ("'; DROP", 5, 0)
    )
    assert sort_rows("id", KNOWN, None, descending=True).tail == 'ORDER BY "id" DESC NULLS LAST '
    assert select_rows(["id"], KNOWN, 2, 5) == Statement('"id"', "LIMIT ? OFFSET ?", (3, 2))


@given(st.text())
def test_a_quoted_name_ends_where_it_should(name: str) -> None:
    inside = quote_identifier(name)[1:-1]

    assert inside.replace('""', "").count('"') == 0
    assert inside.replace('""', '"') == name


@pytest.mark.parametrize("name", ["ID", "id ", "", "nope", 'id"; DROP TABLE x; --'])
def test_only_columns_that_exist_can_be_named(name: str) -> None:
    for ask in (
        lambda: find_column(name, KNOWN),
        lambda: select_rows([name], KNOWN, 0, None),
        lambda: filter_rows(name, "eq", 1, KNOWN, None),
        lambda: sort_rows(name, KNOWN, None, descending=False),
        lambda: count_groups(name, KNOWN, None),
    ):
        with pytest.raises(ArtifactQueryError) as caught:
            ask()
        assert caught.value.field == "column"


@pytest.mark.parametrize(
    ("column", "op", "value", "field"),
    [
        ("id", "= 1 OR 1", 1, "op"),
        ("id", "eq", "many", "value"),
        ("ok", "eq", "maybe", "value"),
        ("id", "lt", None, "value"),
        ("id", "matches", "(", "pattern"),
    ],
)
def test_what_does_not_fit_is_refused(column: str, op: str, value: str | int | None, field: str) -> None:
    with pytest.raises(ArtifactQueryError) as caught:
        filter_rows(column, op, value, KNOWN, None)

    assert caught.value.field == field


def test_no_columns_is_no_selection() -> None:
    with pytest.raises(ArtifactQueryError):
        select_rows([], KNOWN, 0, None)
