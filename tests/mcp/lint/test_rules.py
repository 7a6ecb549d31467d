"""Every rule has an id of its family, a severity and help, and stands on the page of the linter."""

import re
from pathlib import Path

from spindle.mcp.lint import RULES, SEVERITIES


def test_ids_are_ordered_and_texts_are_sentences() -> None:
    assert list(RULES) == sorted(RULES)
    for name, rule in RULES.items():
        assert rule.id == name
        assert re.fullmatch(r"SP[1-6]\d\d", name)
        assert rule.severity in SEVERITIES
        assert rule.help.endswith(".")
        assert not rule.title.endswith(".")


def test_the_page_lists_every_rule_as_it_is() -> None:
    page = (Path(__file__).parents[3] / "docs" / "lint.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (SP\d+) \| (\w+) \| (.+?) \| (.+?) \|$", page, re.MULTILINE)

    assert rows == [(rule.id, rule.severity, rule.title, rule.help) for rule in RULES.values()]
