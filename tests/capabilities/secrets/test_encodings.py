"""A secret is found in every form it may turn up in."""

import json
import os
from base64 import b64encode, encodebytes, urlsafe_b64encode
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.capabilities.secrets.secret import MASK, MAX_SECRET_CHARS, Redactor
from tests.fuzzing import examples

pytestmark = pytest.mark.anyio

VALUE = 'sk-"live"/ké\\y\n😀+& z%4'


def disguises(text: str) -> dict[str, str]:
    data = text.encode()
    return {
        "plain": text,
        "json": json.dumps(text),
        "json, not ascii": json.dumps(text, ensure_ascii=False),
        "json in json": json.dumps(json.dumps(text)),
        "json in json in json": json.dumps(json.dumps(json.dumps({"a": text}))),
        "json with escaped slashes": json.dumps(text).replace("/", "\\/"),
        "repr": repr(text),
        "ascii": ascii(text),
        "repr of bytes": repr(data),
        "url": quote(text, safe=""),
        "url path": quote(text),
        "url form": quote_plus(text),
        "url in small letters": quote(text, safe="").lower() if text.islower() else quote(text),
        "url twice": quote(quote(text, safe=""), safe=""),
        "every byte escaped": "".join(f"%{byte:02x}" for byte in data),
        "hex": data.hex(),
        "HEX": data.hex().upper(),
        "hex with colons": data.hex(":"),
        "base64 in a url": quote(b64encode(data).decode(), safe=""),
        "html": text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;").replace("'", "&#39;"),
    }


@pytest.mark.parametrize("form", disguises(VALUE))
def test_a_value_is_masked_in_every_disguise(form: str) -> None:
    disguised = disguises(VALUE)[form]

    clean = Redactor([VALUE]).redact(f"before {disguised} after")

    assert MASK in clean
    assert clean.startswith("before ")
    assert clean.endswith(" after")
    assert len(clean) <= len("before  after") + len(MASK) + 40  # quotes and braces of the disguise at most


few = settings(max_examples=examples(25), deadline=None)  # each compiles patterns of its own
text_values = st.text(st.characters(exclude_categories=["Cs"]), min_size=8, max_size=40).filter(
    lambda text: len(text.strip()) >= 8
)


@few
@given(value=text_values)
def test_any_value_is_masked_in_every_disguise(value: str) -> None:
    redactor = Redactor([value])
    core = value.strip()

    for form, disguised in disguises(value).items():
        clean = redactor.redact(disguised)
        assert MASK in clean, form
        assert core not in clean or core in MASK, form


@few
@given(value=text_values, before=st.binary(max_size=7), after=st.binary(max_size=7))
def test_base64_is_masked_at_every_alignment(value: str, before: bytes, after: bytes) -> None:
    redactor = Redactor([value])
    data = before + value.strip().encode() + after

    for encoded in (b64encode(data).decode(), urlsafe_b64encode(data).decode(), b64encode(data).decode().rstrip("=")):
        clean = redactor.redact(encoded)
        assert MASK in clean
        left = clean.replace(MASK, "").rstrip("=")
        # What is left are letters of the neighbours alone: fewer than those take.
        assert len(left) <= (len(before) + len(after)) * 8 / 6 + 2


def test_base64_in_lines_is_masked() -> None:
    value = "hunter22-" * 12

    for wrapped in (encodebytes(value.encode()).decode(), json.dumps(encodebytes(value.encode()).decode())):
        clean = Redactor([value]).redact(wrapped)
        assert clean.strip('"\n') in {MASK, f"{MASK}\\n"}


def test_a_text_without_secrets_is_given_back_itself() -> None:
    text, value, data = "a b c", {"a": ["b", {"c": 1.5}]}, b"abc"

    for redactor in (Redactor(), Redactor(["hunter22"])):
        assert redactor.redact(text) is text
        assert redactor.redact_value(value) is value
        assert redactor.redact_bytes(data) is data


def test_value_of_two_characters_is_masked_only_as_a_word() -> None:
    assert Redactor(["ab"]).redact("ab, (ab) ab! abd xab") == "***, (***) ***! abd xab"


def test_value_of_three_characters_is_masked_plain() -> None:
    assert Redactor(["abc"]).redact("abc, (abc) abcd xabc") == "***, (***) ***d x***"
    assert Redactor(["abc"]).redact("YWJj") == "YWJj"


COMMON_ENCODERS: list[Callable[[str], str]] = [
    str,
    json.dumps,
    repr,
    quote,
    lambda text: text.encode().hex(),
    lambda text: b64encode(text.encode()).decode(),
    lambda text: urlsafe_b64encode(b"user:" + text.encode()).decode(),
    lambda text: text.splitlines()[1],
]


@pytest.mark.slow  # a value of this length takes seconds to prepare
@pytest.mark.parametrize("encode", COMMON_ENCODERS)
def test_value_too_long_for_patterns_is_masked_as_common_encoders_write_it(encode: Callable[[str], str]) -> None:
    secret = "".join(f"line {number}: é/+?~\n" for number in range(2_000))
    assert len(secret) > MAX_SECRET_CHARS

    clean = Redactor([secret]).redact(f"before {encode(secret)} after")

    assert clean.startswith("before ")
    assert clean.endswith(" after")
    assert MASK in clean
    assert len(clean) < 60


@pytest.mark.parametrize("value", ["", " ", "\n\t"])
def test_blanks_are_not_secret(value: str) -> None:
    redactor = Redactor([value])

    assert not redactor
    assert redactor.redact("a b\n\t c") == "a b\n\t c"


def test_blanks_round_a_value_are_not_needed_to_find_it() -> None:
    assert Redactor(["  hunter22\n"]).redact("<hunter22>") == "<***>"


def test_overlapping_secrets_leave_nothing_of_either() -> None:
    assert Redactor(["abcdef", "defghi", "abcd"]).redact("<abcdefghi> <abcd>") == "<***> <***>"


def test_each_line_of_a_long_key_is_masked_by_itself() -> None:
    lines = [b64encode(os.urandom(48)).decode() for _ in range(25)]
    key = "\n".join(["-----BEGIN KEY-----", *lines, "-----END KEY-----"])
    redactor = Redactor([key])

    for form in (key, key.replace("\n", "\r\n"), json.dumps(key), quote(key, safe=""), key.encode().hex()):
        assert redactor.redact(form).strip('"') == MASK
    for line in lines:
        assert redactor.redact(f"> {line}") == "> ***"
        assert redactor.redact(b64encode(f"x{line}".encode()).decode()) == "e***"


def test_a_lone_surrogate_does_no_harm() -> None:
    assert Redactor(["hunter22"]).redact("\ud800 hunter22 \udfff") == "\ud800 *** \udfff"
    assert Redactor(["hunt\ud800er22"]).redact("a hunt\ud800er22 b") == "a *** b"
