from spindle.bridges.schema_lowering.report import Loss, LossReport, sort_losses

REWRITTEN = Loss("/properties/a", "pattern", "rewritten", "moved to the description: must match ^a")
DROPPED = Loss("", "additionalProperties", "dropped", "the dialect has no such keyword here")


def test_a_report_sorts_its_losses_by_what_was_done() -> None:
    report = LossReport("search", "gemini", ("/type",), (DROPPED, REWRITTEN))

    assert report.rewritten == (REWRITTEN,)
    assert report.dropped == (DROPPED,)
    assert not report.is_lossless


def test_a_report_without_losses_is_lossless() -> None:
    report = LossReport("search", "mcp", ("/type",))

    assert report.is_lossless
    assert "nothing lost" in str(report)


def test_a_report_reads_line_by_line() -> None:
    lines = str(LossReport("search", "gemini", ("/type",), (DROPPED, REWRITTEN))).splitlines()

    assert lines[0] == "search in gemini: 1 kept, 1 rewritten, 1 dropped"
    assert lines[1].split(":")[0] == "  dropped additionalProperties at /"
    assert lines[2].split(":")[0] == "  rewritten pattern at /properties/a"


def test_a_report_is_plain_data_too() -> None:
    assert LossReport("search", "gemini", ("/type",), (REWRITTEN,)).to_dict() == {
        "tool": "search",
        "dialect": "gemini",
        "kept": ["/type"],
        "losses": [
            {
                "path": "/properties/a",
                "keyword": "pattern",
                "action": "rewritten",
                "detail": "moved to the description: must match ^a",
                "narrows": False,
            }
        ],
    }


def test_losses_are_sorted_by_place_and_listed_once() -> None:
    assert sort_losses([REWRITTEN, DROPPED, REWRITTEN]) == (DROPPED, REWRITTEN)
