"""The errors are one tree in one package, each with its code and its facts."""

import ast
import pickle
import re
import typing
from collections.abc import Iterator, Mapping
from inspect import Parameter, signature
from pathlib import Path

import pytest

from spindle import errors
from spindle.errors import SpindleError
from tests.house.sources import parse_matching, walk_statements


def tree_of(kind: type[SpindleError]) -> Iterator[type[SpindleError]]:
    """Yield `kind` and its subclasses in the order of their definition."""
    yield kind
    for child in kind.__subclasses__():
        if child.__module__.startswith(errors.__name__):
            yield from tree_of(child)


KINDS = list(tree_of(SpindleError))


def drawn_tree() -> dict[str, str | None]:
    """Return each class and its parent in the tree of the docstring of `spindle.errors`."""
    parents: dict[str, str | None] = {}
    line_of_descent: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"([│├└─ ]*)([A-Z]\w+)(?:\s{2,}\S|$)", line)
        if found is None:
            continue
        depth, name = len(found[1]) // 4, found[2]
        assert name not in parents, f"{name} is drawn twice"
        parents[name] = line_of_descent[depth - 1] if depth else None
        line_of_descent[depth:] = [name]
    return parents


def sample(hint: object) -> object:
    """Return a value for a parameter declared as `hint`."""
    kinds = [hint, typing.get_origin(hint), *typing.get_args(hint)]
    choices: list[tuple[object, object]] = [(str, "x"), (bool, True), (int, 3), (float, 2.5), (dict, {}), (Mapping, {})]
    return next((value for kind, value in choices if kind in kinds), ())


def made(kind: type[SpindleError]) -> SpindleError:
    """Return an error of that class with every fact filled in."""
    hints = typing.get_type_hints(kind.__init__)
    positional: list[object] = []
    named: dict[str, object] = {}
    for name, parameter in list(signature(kind.__init__).parameters.items())[1:]:
        if parameter.kind is Parameter.POSITIONAL_OR_KEYWORD:
            positional.append(sample(hints[name]))
        elif parameter.kind is Parameter.KEYWORD_ONLY:
            named[name] = sample(hints[name])
    return typing.cast("typing.Any", kind)(*positional, **named)


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    parents = {kind.__name__: kind.__bases__[0].__name__ for kind in KINDS}

    assert drawn_tree() == parents | {"SpindleError": None}


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_pickles_with_its_facts(kind: type[SpindleError]) -> None:
    error = made(kind)

    again = pickle.loads(pickle.dumps(error))

    assert type(again) is kind
    assert (again.args, vars(again), str(again)) == (error.args, vars(error), str(error))


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_has_a_code_a_status_and_says_whether_it_is_fatal(kind: type[SpindleError]) -> None:
    assert re.fullmatch(r"E_[A-Z]+(_[A-Z]+)*", vars(kind)["code"])
    assert 400 <= kind.status <= 599
    assert isinstance(kind.fatal, bool)
    assert kind.__doc__


def test_no_two_errors_share_a_code() -> None:
    codes = [kind.code for kind in KINDS]

    assert len(codes) == len(set(codes))


def test_every_public_error_is_defined_in_the_one_file(root: Path) -> None:
    elsewhere = [
        f"{path.relative_to(root)}: {node.name}"
        for path, tree in parse_matching((root / "src").rglob("*.py"), r"^\s*class\s+\w+\([^:]*(Error|Exception)\b")
        if path.parent.name != "errors"
        for node in walk_statements(tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        if any(re.search(r"(Error|Exception)$", ast.unparse(base)) for base in node.bases)
    ]

    assert not elsewhere
