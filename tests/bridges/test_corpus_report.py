"""`make corpus`: the report of losses over many tools."""

from pathlib import Path

import pytest

from benchmarks.corpus import CorpusTool, forms, main, measure, report, sources

PLAIN = CorpusTool(
    "ours", "plain", "Plain.", {"type": "object", "properties": {"a": {"type": "string", "format": "uri"}}}
)
CLASHING = CorpusTool("ours", "clash", "Clash.", {"type": "object", "properties": {"a b": {}, "a_b": {}}})


def test_every_form_of_every_dialect_is_measured() -> None:
    names = [name for name, _, _ in forms()]

    assert len(names) == len(set(names)) == 10
    assert {"gemini", "openai_chat strict", "mcp"} <= set(names)


def test_kept_rewritten_and_dropped_keywords_are_counted() -> None:
    rules = {name: rules for name, rules, _ in forms()}
    losses = measure([PLAIN], rules["gemini"], None)

    assert losses.kept["type"] == 2
    assert losses.rewritten["format"] == 1
    assert measure([PLAIN], rules["mcp"], None).lossless == 1


def test_a_tool_that_is_refused_is_named_with_its_reason() -> None:
    text = report([PLAIN, CLASHING])

    assert "refused ours clash: two properties would both be named 'a_b'" in text
    assert "in the loose form: a value of any type" in text


def test_the_corpus_is_read_whole(whole_corpus: list[CorpusTool]) -> None:
    assert sources(whole_corpus) == {"livemcp": 527, "github": 117, "bfcl": 957}


def test_the_corpus_is_lowered_to_every_dialect(corpus_tools: list[CorpusTool]) -> None:
    for name, rules, fallback in forms():
        losses = measure(corpus_tools, rules, fallback)
        assert not losses.refused, name
        assert losses.loose < 70


def test_a_corpus_that_is_not_there_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path / "nowhere")])

    assert "SPINDLE_DATA" in capsys.readouterr().err
