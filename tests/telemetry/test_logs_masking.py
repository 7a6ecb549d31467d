"""What looks like a token or a password is masked in a line, whatever is round it, and quickly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.telemetry.logs import redact_text
from tests.bounds import bounded_cpu

LEAKS = {
    "a header": "Authorization: Bearer SECRET1234.x-y",
    "a scheme": "sent Bearer SECRET1234 to it",
    "basic": "authorization=Basic SECRET1234==",
    "cookies": "Cookie: a=SECRET1234; b=SECRET1234",
    "JSON": '{"password": "SECRET1234 with blanks", "user": "zoe"}',
    "JSON in JSON": '"{\\"api_key\\": \\"SECRET1234\\"}"',
    "Python": "{'client_secret': 'SECRET1234 with blanks'}",
    "the environment": "OPENAI_API_KEY=SECRET1234 run",
    "a query": "GET /x?access_token=SECRET1234&page=2",
    "an address": "postgres://zoe:SECRET1234@db/x",
    "a named header": "X-Api-Key: SECRET1234",
    "a model's key": "invalid key sk-SECRET1234-abcdef",
    "a forge's key": "remote: github_pat_SECRET1234",
    "a web token": "eyJhbGciOiJI.eyJSECRET1234.SECRET1234",
}


@pytest.mark.parametrize("text", LEAKS.values(), ids=LEAKS.keys())
def test_secrets_in_texts_are_masked(text: str) -> None:
    assert "SECRET" not in redact_text(text, 2_000)
    assert "***" in redact_text(text, 2_000)


@pytest.mark.parametrize(
    "text", ["the turn ended", "tokens: 55", "a basic idea", "GET https://host:8080/x?page=2", "task-force"]
)
def test_other_texts_are_unchanged(text: str) -> None:
    assert redact_text(text, 2_000) == text


def test_a_token_at_the_edge_is_masked_and_the_rest_is_cut() -> None:
    text = "x" * 1_990 + " Bearer SECRET1234" + "y" * 100_000

    assert "SECRET" not in redact_text(text, 2_000)
    assert len(redact_text(text, 2_000)) <= 2_001


@given(st.text(max_size=200), st.text(max_size=200))
def test_words_round_a_token_do_not_uncover_it(before: str, after: str) -> None:
    assert "SECRET1234" not in redact_text(f"{before} Bearer SECRET1234 {after}", 2_000)


@pytest.mark.parametrize("piece", ["a-", "api-", "token", "token=", 'token="', "bearer ", "://a:", "eyJaaaa.", "sk-"])
def test_no_text_takes_long(piece: str) -> None:
    with bounded_cpu():
        redact_text(piece * 100_000, 2_000)
