import pytest

from spindle.tools.function import parse_docstring

GOOGLE = """Find orders.

Newest first.

Args:
    customer (str): Who
        ordered.
    limit: How many.

Returns:
    The orders.
"""
NUMPY = """Find orders.

Newest first.

Parameters
----------
customer : str
    Who
    ordered.
limit
    How many.

Returns
-------
list
    The orders.
"""
SPHINX = """Find orders.

Newest first.

:param customer: Who
    ordered.
:param int limit: How many.
:returns: The orders.
"""


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX])
def test_three_styles_say_the_same(text: str) -> None:
    read = parse_docstring(text)

    assert read.description == "Find orders.\n\nNewest first."
    assert read.parameters == {"customer": "Who ordered.", "limit": "How many."}


def test_a_docstring_without_sections_is_kept_as_it_stands() -> None:
    text = """First line.

    - a list: with a colon
      and more

    Example of use: do it.
    """

    assert (
        parse_docstring(text).description
        == "First line.\n\n- a list: with a colon\n  and more\n\nExample of use: do it."
    )
    assert parse_docstring(text).parameters == {}


def test_details_for_programmers_are_left_out() -> None:
    read = parse_docstring("Do it.\n\nRaises:\n    ValueError: Never.\n")

    assert read.description == "Do it."


@pytest.mark.parametrize(
    "text", ["", "   ", "Args:", "Args:\n    x", ":param", "Parameters\n----------", "\0", "Args:\n  x:\n"]
)
def test_a_strange_docstring_does_not_crash(text: str) -> None:
    parse_docstring(text)
