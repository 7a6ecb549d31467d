import pytest

from benchmarks.texts import O200K_TOKENS, build_text
from spindle import Artifact

pytestmark = pytest.mark.anyio


@pytest.mark.slow
@pytest.mark.parametrize("kind", O200K_TOKENS)
async def test_tokens_are_estimated_within_fifteen_percent_of_o200k(kind: str) -> None:
    text, true_count = build_text(kind), O200K_TOKENS[kind]
    allowed = range(true_count * 85 // 100, true_count * 115 // 100)

    assert await Artifact.from_text(text).estimate_tokens() in allowed


def test_a_text_is_the_same_in_every_run() -> None:
    assert build_text("CSV") == build_text("CSV")
