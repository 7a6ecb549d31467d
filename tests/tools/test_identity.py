import json
import os
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from spindle.errors import NotCanonicalError
from spindle.tools.canonical import serialize
from spindle.tools.identity import canonical_json, checksum, fingerprint

SAFE = 2**53 - 1

# Every character, with the ones that escape or sort differently drawn often.
text = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from('"\\/\b\f\n\r\t\x00\x1f\x7f\u2028\ue000\uffff😀')
)
numbers = st.integers(-SAFE, SAFE) | st.floats(allow_nan=False, allow_infinity=False) | st.floats(-1e6, 1e6, width=32)
scalars = st.none() | st.booleans() | numbers | text
trees = st.recursive(
    scalars,
    lambda child: st.lists(child) | st.lists(child).map(tuple) | st.dictionaries(text, child),
    max_leaves=30,
)
wild_text = st.text(st.characters() | st.sampled_from("\ud800\udbff\udc00\udfff\ue000\U00010000"))
wild_trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | wild_text | st.binary(max_size=1) | st.decimals(),
    lambda child: st.lists(child) | st.dictionaries(wild_text | st.integers() | st.none(), child),
    max_leaves=15,
)

GOLDEN: list[tuple[str, Any, str]] = [
    ("echo", {}, "28535312633cb507c5892dc9480230e55c182e23fa7f5912a5560bb6644d50b9"),
    ("search", {"query": "hello"}, "e0b6feaa14a993179f474568e2c0a63075752fe3a8bc629bc0cd1442a002448e"),
    ("search", {"b": "2", "a": "1"}, "e3c77b082bd53c359702567ebea280be7cda1092494c1ffcb483692e558f0cb5"),
    ("search", {"a": "1", "b": "2"}, "e3c77b082bd53c359702567ebea280be7cda1092494c1ffcb483692e558f0cb5"),
    (
        "t",
        {"z": {"b": [3, 1, 2], "a": None}, "a": True},
        "af2fb9334428961e033cc376a62e41b741cc037229e4a87b96891aa4e3cac629",
    ),
    (
        "t",
        {"text": 'é\U0001f600\u2028"\\/\n\t\b\x07\x7f'},
        "d17d67d8d1fe4c02f7dd041c74da6308f67bb5fd1985115ec44e2cfc956ee29c",
    ),
    ("t", {"text": "\ud800"}, "b73f0c48f6dc5596d8a62225c400c2e76a1d369c2a1d4277a991d6b8a56ebfd6"),
    (
        "t",
        {
            "a": 1.0,
            "b": 1e21,
            "c": 1e-7,
            "d": 0.1,
            "e": -0.0,
            "f": 123456789012345680000,
            "g": 1e20,
            "h": 5e-324,
            "i": 1.5e300,
            "j": 0.000001,
        },
        "d28f4a19c20933da7684e9633c24b88ab8e735641f041b5840f29b7c2de70ed6",
    ),
    (
        "t",
        {"\uffff": 1, "\U00010000": 2, "a": 3, "B": 4, "10": 5, "9": 6},
        "cc95eadb9ba190eb39e865bb3ab1286573c84a070a9f84125c93c4de759ccbde",
    ),
    # The one declared difference: JavaScript would round it to 12345678901234567000.
    ("t", {"n": 12345678901234567890}, "55a2a36ed07e3f742526be624bc0e002e024b753ffdecc60b9d09fb1a46121f1"),
    ("t", {"n": 12345678901234567890.0}, "4bfb2420b19a4d137405ea3883bfd3625ac19b63f6d2dcf2020be0a5187b90f2"),
    ("t", None, "7f3f42ddee5c9f40d7edf3dcdd8345ae653dc73dff61404c92932c0e7541c9fa"),
    ("t", [1, 2], "ac6fb46685ad96e89036827dbff3a80e231f1cca3df72af80c165eaa0bafa4aa"),
    ("t", '{"a":1}', "81b7460f9d1e9d648db1f94c7963e5637536f4f2f995f24fa1bbeeca8329829c"),
    ("t", {"a": {}}, "7b4bb3c6030b8727e82284c4af2387e86429b7f7aa004f1440e8de23efedc25d"),
    ("t", {"a": []}, "410abf035b040a197cfcb424f458af8d9e94142bbc36a18f7a8d52324c4760f1"),
]


@pytest.mark.parametrize(("tool", "args", "expected"), GOLDEN)
def test_the_golden_checksums_hold(tool: str, args: Any, expected: str) -> None:
    assert checksum(tool, args) == expected


@pytest.mark.parametrize("name", ["arrays", "french", "structures", "unicode", "values", "weird"])
def test_the_published_vectors_hold(shared_data: Path, name: str) -> None:
    vectors = shared_data / "jcs" / "testdata"
    value = json.loads((vectors / "input" / f"{name}.json").read_text("utf-8"))
    expected = bytes.fromhex((vectors / "outhex" / f"{name}.txt").read_text("ascii"))

    assert expected == (vectors / "output" / f"{name}.json").read_bytes()
    assert canonical_json(value) == expected
    assert serialize(value) == expected


@given(trees)
@example({"\U00010000": {"\ue000": 1, "\U0001f600": 2}, "\uffff": 3})
@example([2.0**53, 2.0**53 - 1, -(2.0**53), 1e-6, 9.999999999999997e-7, 4503599627370495.5])
def test_the_quick_way_the_definition_and_the_reference_agree(value: Any) -> None:
    assert canonical_json(value) == serialize(value) == rfc8785.dumps(value)


@given(st.floats(1e-7, 1e17) | st.floats(-1e17, -1e-7))
def test_the_quick_way_spells_a_float_as_the_reference_does(number: float) -> None:
    assert canonical_json([number]) == rfc8785.dumps([number])


@given(st.integers() | st.integers(-(10**60), 10**60))
def test_integers_keep_their_digits(number: int) -> None:
    assert canonical_json([number]) == serialize([number]) == f"[{number}]".encode()


def outcome(write: Callable[[Any], bytes], value: Any) -> bytes | str:
    try:
        return write(value)
    except NotCanonicalError as error:
        return error.path


@given(wild_trees)
def test_the_quick_way_refuses_and_escapes_just_what_the_definition_does(value: Any) -> None:
    assert outcome(canonical_json, value) == outcome(serialize, value)


@given(trees)
def test_canonical_json_reads_back_as_its_value_and_is_its_own_canonical_form(value: Any) -> None:
    data = canonical_json(value)
    # A large whole float is spelled without exponent, and Python would read it as an integer of other digits.
    assert json.loads(data, parse_int=float) == json.loads(json.dumps(value), parse_int=float)
    assert canonical_json(json.loads(data)) == data


@given(st.dictionaries(text, scalars), st.randoms())
def test_the_order_of_keys_does_not_matter(members: dict[str, Any], random: Any) -> None:
    shuffled = list(members.items())
    random.shuffle(shuffled)

    assert checksum("t", dict(shuffled)) == checksum("t", members)


def test_ordinary_arguments_take_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(value: Any) -> bytes:
        pytest.fail(f"the definition was asked for {value!r}")

    monkeypatch.setattr("spindle.tools.identity.serialize", never)

    value = {
        "q": "été 😀 日本",
        "page": {"limit": 10, "ratio": 0.25, "whole": 2.0, "zero": -0.0},
        "tags": ["a", None],
        "t": (True,),
    }
    assert (
        canonical_json(value)
        == (
            '{"page":{"limit":10,"ratio":0.25,"whole":2,"zero":0},"q":"été 😀 日本","t":[true],"tags":["a",null]}'
        ).encode()
    )


def test_a_library_that_spells_json_another_way_changes_no_checksum() -> None:
    script = """
import json
from jsonschema_rs import canonical
canonical.json.to_string = lambda value: json.dumps(value, sort_keys=True, separators=(",", ":"))
from spindle.tools.identity import checksum
print(checksum("t", {"a": 1.0, "b": "é"}))
"""
    assert run_python(script) == checksum("t", {"b": "é", "a": 1})


def test_a_checksum_is_the_hash_of_tool_and_arguments() -> None:
    text = '{"args":{"a":1},"tool":"tööl"}'
    assert checksum("tööl", {"a": 1.0}) == sha256(text.encode()).hexdigest()


def test_a_checksum_that_cannot_be_made_names_the_tool_and_the_place() -> None:
    with pytest.raises(NotCanonicalError) as caught:
        checksum("search", {"a": [float("nan")]})

    assert caught.value.tool == "search"
    assert caught.value.path == "$.args.a[0]"


SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "number", "minimum": 0.5}}}


def test_a_fingerprint_changes_with_each_part_of_the_contract() -> None:
    prints = {
        fingerprint("search", "Search.", SCHEMA),
        fingerprint("search2", "Search.", SCHEMA),
        fingerprint("search", "Search!", SCHEMA),
        fingerprint("search", "Search.", {**SCHEMA, "required": ["q"]}),
        fingerprint("Search.", "search", SCHEMA),
    }

    assert len(prints) == 5
    assert all(len(each) == 64 and each == each.lower() for each in prints)


def test_a_fingerprint_does_not_depend_on_the_order_of_the_schema() -> None:
    turned = dict(reversed(SCHEMA.items()))
    assert fingerprint("search", "Search.", turned) == fingerprint("search", "Search.", SCHEMA)


def test_a_fingerprint_that_cannot_be_made_names_the_tool() -> None:
    with pytest.raises(NotCanonicalError) as caught:
        fingerprint("search", "Search.", {"default": float("inf")})

    assert caught.value.tool == "search"


@pytest.mark.parametrize("seed", ["0", "1", "4294967295"])
def test_names_are_the_same_in_every_process_and_with_every_hash_seed(seed: str) -> None:
    script = f"""
from spindle.tools.identity import checksum, fingerprint
print(checksum("t", {{"b": 1, "a": [1.5]}}), fingerprint("search", "Search.", {SCHEMA!r}))
"""
    expected = f"{checksum('t', {'a': [1.5], 'b': 1})} {fingerprint('search', 'Search.', SCHEMA)}"
    assert run_python(script, PYTHONHASHSEED=seed) == expected


def run_python(script: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environment},
        capture_output=True,
        check=True,
        text=True,
        timeout=30,
    )
    return done.stdout.strip()
