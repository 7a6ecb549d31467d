import importlib
import sys

import pytest

from spindle.errors import MissingExtraError
from spindle.extras import needs_package


@pytest.mark.parametrize(
    ("bridge", "package", "to_install"),
    [
        ("pydantic_ai", "pydantic_ai", "pydantic-ai-slim"),
        ("langchain", "langchain_core", "langchain-core"),
        ("openai_agents", "agents", "openai-agents"),
    ],
)
def test_a_bridge_without_its_framework_says_what_to_install(
    bridge: str, package: str, to_install: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, f"spindle.bridges.frameworks.{bridge}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(MissingExtraError) as caught:
        importlib.import_module(f"spindle.bridges.frameworks.{bridge}")

    assert f"pip install {to_install}" in str(caught.value)


def test_another_error_of_an_import_is_let_through() -> None:
    with pytest.raises(ZeroDivisionError), needs_package("anything"):
        raise ZeroDivisionError
