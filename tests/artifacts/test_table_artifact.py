import datetime
import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.artifacts.table_artifact import (
    Column,
    Statement,
    TableArtifact,
    count_groups,
    filter_rows,
    find_column,
    quote_identifier,
    select_rows,
    sort_rows,
)
from spindle.errors import ArtifactQueryError, InvalidArtifactError
from tests.fuzzing import examples

pytestmark = [pytest.mark.anyio, pytest.mark.one_loop]

ORDERS = """\
id,customer,total,day,paid
1,Ada,9.5,2024-01-01,true
2,"Lovelace, A",20,2024-01-03,false
3,"two
lines",5.25,2024-01-02,true
4,Ada,,2024-01-05,true
"""


@pytest.fixture
def orders() -> TableArtifact:
    return TableArtifact.from_text(ORDERS)


async def test_columns_have_names_and_types(orders: TableArtifact) -> None:
    assert await orders.columns() == [
        ("id", "BIGINT"),
        ("customer", "VARCHAR"),
        ("total", "DOUBLE"),
        ("day", "DATE"),
        ("paid", "BOOLEAN"),
    ]


async def test_rows_are_counted_and_read_by_range_while_head_stays_lines(orders: TableArtifact) -> None:
    assert await orders.row_count() == 4
    assert [row["id"] for row in await orders.rows(1, 3)] == [2, 3]
    assert [row["id"] for row in await orders.rows(3)] == [4]
    assert await orders.rows(9, 99) == []
    assert await orders.rows(2, 1) == []
    assert len(await orders.rows()) == 4
    assert (await orders.rows(2, 3))[0] == {
        "id": 3,
        "customer": "two\nlines",
        "total": 5.25,
        "day": datetime.date(2024, 1, 2),
        "paid": True,
    }
    assert await orders.head(1) == ["id,customer,total,day,paid"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "op", "value", "ids"),
    [
        ("total", "gt", 6, [1, 2]),
        ("total", "le", "9.5", [1, 3]),
        ("total", "is_null", None, [4]),
        ("total", "not_null", None, [1, 2, 3]),
        ("total", "ne", 20, [1, 3, 4]),
        ("customer", "eq", "Ada", [1, 4]),
        ("customer", "ne", "Ada", [2, 3]),
        ("customer", "contains", ", ", [2]),
        ("customer", "starts_with", "two", [3]),
        ("customer", "ends_with", "lines", [3]),
        ("customer", "matches", "^[AL]", [1, 2, 4]),
        ("customer", "eq", "' OR 1=1 --", []),
        ("customer", "gt", 5, []),
        ("day", "ge", "2024-01-03", [2, 4]),
        ("paid", "eq", False, [2]),
        ("paid", "eq", "true", [1, 3, 4]),
        ("id", "eq", 10**30, []),
    ],
)
async def test_filter(orders: TableArtifact, column: str, op: Any, value: Any, ids: list[int]) -> None:
    assert [row["id"] for row in await orders.filter(column, op, value)] == ids


@pytest.mark.slow
async def test_select_sort_and_group_counts(orders: TableArtifact) -> None:
    assert await orders.select(["paid", "id"], 0, 1) == [{"paid": True, "id": 1}]
    assert [row["id"] for row in await orders.sort("total")] == [3, 1, 2, 4]
    assert [row["id"] for row in await orders.sort("total", descending=True, limit=2)] == [2, 1]
    assert await orders.group_counts("customer", limit=1) == [{"value": "Ada", "count": 2}]
    assert await orders.group_counts("paid") == [{"value": True, "count": 3}, {"value": False, "count": 1}]


async def test_invalid_queries_raise_query_errors(orders: TableArtifact) -> None:
    with pytest.raises(ArtifactQueryError):
        await orders.sort("nope")
    with pytest.raises(ArtifactQueryError):
        await orders.filter("day", "gt", "soon")
    with pytest.raises(ArtifactQueryError):
        await orders.filter("id", "eq", "x")
    with pytest.raises(ArtifactQueryError):
        await TableArtifact.from_text("").sort("id")


@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ("", [], []),
        ("a,b\n", ["a", "b"], []),
        ("a\n1\n2\n", ["a"], [[1], [2]]),
        ("a,b\n1,2", ["a", "b"], [[1, 2]]),
        ("\ufeffa,b\r\n1,2\r\n", ["a", "b"], [[1, 2]]),
        ("a,a,A\n1,2,3\n", ["a", "a_1", "A_2"], [[1, 2, 3]]),
        ("a,b\n1\n1,2,3\n", ["a", "b", "column2"], [[1, None, None], [1, 2, 3]]),
        ('a,b\n"x ""q"" y",""\n', ["a", "b"], [['x "q" y', None]]),
        ("a,b\n#1,2\n3,4\n", ["a", "b"], [["#1", 2], ["3", 4]]),
        ("# note\n1\n", ["# note"], [[1]]),
        (",b\n1,2\n", ["column0", "b"], [[1, 2]]),
        ("name,city\nann,oslo\n", ["name", "city"], [["ann", "oslo"]]),
        ("1,2\n3,4\n", ["1", "2"], [[3, 4]]),
        ("zip\n007\n", ["zip"], [["007"]]),
        ('"a ""b",\'c\n1,2\n', ['a "b', "'c"], [[1, 2]]),
        ("a;b\n1;2\n", ["a", "b"], [[1, 2]]),
        ("a|b\n1|2\n", ["a", "b"], [[1, 2]]),
        ("a\tb,c\td\n1\t2\t3\n", ["a", "b,c", "d"], [[1, 2, 3]]),
        (
            '{"a": 1, "b": {"c": [1]}}\n\n{"b": null, "z": "q"}\n',
            ["a", "b", "z"],
            [[1, {"c": [1]}, None], [None, None, "q"]],
        ),
        ('{"a": 1}\n{"a": "x"}\n{"a": null}\n', ["a"], [[1], ["x"], [None]]),
        ("a,b\n" + "x" * 3_000_000 + ",2\n", ["a", "b"], [["x" * 3_000_000, 2]]),
    ],
)
async def test_odd_tables_are_read(text: str, names: list[str], rows: list[list[Any]]) -> None:
    table = TableArtifact.from_text(text)

    assert [column.name for column in await table.columns()] == names
    assert [list(row.values()) for row in await table.rows()] == rows
    assert await table.row_count() == len(rows)


async def test_every_column_of_an_odd_header_can_be_asked() -> None:
    table = TableArtifact.from_text('"a ""b","sel;ect","x\ny",é\n1,2,3,4\n')

    for column in await table.columns():
        assert len(await table.group_counts(column.name)) == 1
        assert len(await table.filter(column.name, "not_null")) == 1


@pytest.mark.slow
async def test_a_late_row_may_change_the_type_of_its_column() -> None:
    table = TableArtifact.from_text("a,b\n" + "1,2\n" * 30_000 + "x,3\n")

    assert await table.filter("a", "eq", "x") == [{"a": "x", "b": 3}]
    assert await table.columns() == [("a", "VARCHAR"), ("b", "BIGINT")]

    again = TableArtifact.from_text("a,b\n" + "1,2\n" * 30_000 + "x,3\n")
    assert (await again.rows(29_999, 30_001))[1] == {"a": "x", "b": 3}


@pytest.mark.parametrize(
    ("data", "format"),
    [
        (b"PAR1 this is none", None),
        (b"\xe9,b\n\xff,2\n", "csv"),
        (b'{"a": 1}\nnope\n', None),
        (b"a,b\n1,2\n", "parquet"),
    ],
)
async def test_content_of_another_kind_is_an_error_that_names_no_path(data: bytes, format: Any) -> None:
    table = TableArtifact.from_bytes(data, format=format)

    with pytest.raises(InvalidArtifactError) as caught:
        await table.rows()
    assert "/" not in caught.value.message.replace("and/or", "")


async def test_an_unknown_format_is_an_error() -> None:
    unknown: Any = "xls"
    with pytest.raises(InvalidArtifactError):
        TableArtifact.from_text("", format=unknown)


async def test_parquet_is_detected_from_its_first_bytes(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT range AS id, 'n' || range AS name FROM range(1000)) TO '{file}' (FORMAT parquet)"
        )
    table = TableArtifact.from_bytes(file.read_bytes())

    assert await table.row_count() == 1000
    assert await table.filter("name", "eq", "n7") == [{"id": 7, "name": "n7"}]
    assert await table.columns() == [("id", "BIGINT"), ("name", "VARCHAR")]


@pytest.mark.parametrize("indent", [None, 2], ids=["in one line", "in many lines"])
async def test_a_json_array_of_objects_is_a_table(indent: int | None) -> None:
    # In one line it is longer than a header of CSV may be.
    orders = [{"id": number, "town": "Cork" if number % 2 else "Bergen"} for number in range(30_000)]
    table = TableArtifact.from_text(json.dumps(orders, indent=indent))

    assert await table.row_count() == 30_000
    assert await table.columns() == [("id", "BIGINT"), ("town", "VARCHAR")]
    assert await table.filter("id", "eq", 7) == [{"id": 7, "town": "Cork"}]
    answer = await table.sql("SELECT town, count(*) FROM artifact GROUP BY town ORDER BY town")
    assert answer.rows == (("Bergen", 15_000), ("Cork", 15_000))


cells = st.text(
    st.characters(codec="utf-8", exclude_characters="\r\0", exclude_categories=("Cs", "Cc")), min_size=1, max_size=8
)


@settings(max_examples=examples(15), deadline=None)
@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=8))
async def test_cells_survive_quoting(pairs: list[tuple[str, str]]) -> None:
    lines = ['"' + '","'.join(cell.replace('"', '""') for cell in ("~" + a, "~" + b)) + '"' for a, b in pairs]
    table = TableArtifact.from_text("\n".join(["left,right", *lines]), format="csv")

    assert [(row["left"], row["right"]) for row in await table.rows()] == [("~" + a, "~" + b) for a, b in pairs]


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
def test_values_that_do_not_fit_their_column_are_refused(
    column: str, op: str, value: str | int | None, field: str
) -> None:
    with pytest.raises(ArtifactQueryError) as caught:
        filter_rows(column, op, value, KNOWN, None)

    assert caught.value.field == field


def test_an_empty_list_of_columns_is_refused() -> None:
    with pytest.raises(ArtifactQueryError):
        select_rows([], KNOWN, 0, None)
