import copy
import enum
import json
import math
import struct
import sys
from collections import OrderedDict, UserDict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from spindle.errors import NotCanonicalError
from spindle.tools.canonical import format_float, format_integer, serialize
from spindle.tools.identity import canonical_json


# Every rule holds for the definition and for what callers use.
@pytest.fixture(params=[serialize, canonical_json], ids=["definition", "public"])
def write(request: pytest.FixtureRequest) -> Callable[[Any], bytes]:
    return request.param


def refusal(write: Callable[[Any], bytes], value: Any) -> NotCanonicalError:
    with pytest.raises(NotCanonicalError) as caught:
        write(value)
    return caught.value


def cyclic_list() -> list[Any]:
    loop: list[Any] = [1]
    loop.append(loop)
    return loop


def cyclic_mapping() -> dict[str, Any]:
    inner: dict[str, Any] = {}
    inner["back"] = {"to": [inner]}
    return {"a": inner}


class Pair(NamedTuple):
    first: int
    second: int


@dataclass
class Point:
    x: int = 1


class Colour(enum.Enum):
    RED = "red"


class Broken(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (float("nan"), "$"),
        ({"a": float("inf")}, "$.a"),
        ({"a": [0, 1, 2, {"b": float("-inf")}]}, "$.a[3].b"),
        ({"a": {1: 2}}, "$.a"),
        ({True: 1}, "$"),
        ({None: 1}, "$"),
        ({1.5: 1}, "$"),
        ({("a",): 1}, "$"),
        ({"a": 1, 2: 3}, "$"),
        ({b"a": 1}, "$"),
        ({Colour.RED: 1}, "$"),
        ([b"bytes"], "$[0]"),
        ({"when": datetime.now(UTC)}, "$.when"),
        ([[{1, 2}]], "$[0][0]"),
        ((Decimal("1.5"),), "$[0]"),
        ({"a": Decimal(1)}, "$.a"),
        ([Colour.RED], "$[0]"),
        ([Point()], "$[0]"),
        ([object], "$[0]"),
        (deque([1]), "$"),
        (range(3), "$"),
        ({"a b": 1j}, '$["a b"]'),
        ({"\ud800": {"é": ...}}, '$["\\ud800"].é'),
        ({"": b""}, '$[""]'),
        (cyclic_list(), "$[1]"),
        (cyclic_mapping(), "$.a.back.to[0]"),
        ({"a": Broken()}, "$.a"),
    ],
)
def test_text_that_is_not_json_is_refused_with_its_location(
    write: Callable[[Any], bytes], value: Any, path: str
) -> None:
    assert refusal(write, value).path == path


def test_a_mapping_that_cannot_be_read_is_the_cause(write: Callable[[Any], bytes]) -> None:
    assert isinstance(refusal(write, Broken()).__cause__, KeyError)


def test_a_value_may_stand_in_many_places_as_long_as_it_does_not_hold_itself(write: Callable[[Any], bytes]) -> None:
    shared = {"x": [1]}
    assert write([shared, shared, {"again": shared}]) == b'[{"x":[1]},{"x":[1]},{"again":{"x":[1]}}]'


def test_a_subclass_is_written_as_the_json_it_is() -> None:
    class Shade(enum.StrEnum):
        DARK = "dark"

    class Level(enum.IntEnum):
        HIGH = 3

    class Loud(str):
        __slots__ = ()

        def __str__(self) -> str:
            return "LOUD"

        def __lt__(self, other: str) -> bool:
            return not str.__lt__(self, other)

    empty: Mapping[str, Any] = MappingProxyType({})
    value: dict[str, Any] = {
        Loud("b"): [Shade.DARK, Level.HIGH, Loud("quiet")],
        Shade.DARK: Pair(1, 2),
        Loud("a"): OrderedDict[str, Any](z=1, y=UserDict(k=empty)),
    }
    expected = b'{"a":{"y":{"k":{}},"z":1},"b":["dark",3,"quiet"],"dark":[1,2]}'

    assert canonical_json(value) == serialize(value) == expected


def test_an_enum_counts_as_its_text_even_when_its_value_says_otherwise(write: Callable[[Any], bytes]) -> None:
    class Odd(enum.StrEnum):
        ONE = ("text", "value")

        def __new__(cls, text: str, value: str) -> "Odd":
            made = str.__new__(cls, text)
            made._value_ = value
            return made

    assert write({Odd.ONE: Odd.ONE}) == b'{"text":"text"}'


def test_true_and_one_are_different_values(write: Callable[[Any], bytes]) -> None:
    assert write([True, 1, False, 0, 1.0, -0.0]) == b"[true,1,false,0,1,0]"


def test_a_surrogate_is_escaped_alone_and_joined_in_a_pair(write: Callable[[Any], bytes]) -> None:
    assert write("\ud800") == b'"\\ud800"'
    assert write("x\udfff\ud800") == b'"x\\udfff\\ud800"'
    assert write("\ud83d\ude00") == write("\U0001f600") == '"\U0001f600"'.encode()
    assert write({"\udc00": 1, "\ue000": 2, "\U00010000": 3}) == '{"\U00010000":3,"\\udc00":1,"\ue000":2}'.encode()


def test_two_keys_that_are_one_key_in_json_are_refused(write: Callable[[Any], bytes]) -> None:
    assert refusal(write, {"a": {"\ud83d\ude00": 1, "\U0001f600": 2}}).path == "$.a"


@pytest.mark.parametrize(
    "depth", [1, 100, 250, 254, 255, 256, 500, 999, 1000, 5000, pytest.param(100_000, marks=pytest.mark.slow)]
)
def test_deep_nesting_does_not_overflow(write: Callable[[Any], bytes], depth: int) -> None:
    value: Any = []
    for _ in range(depth):
        value = [value]

    assert write(value) == b"[" * (depth + 1) + b"]" * (depth + 1)


def test_a_bad_value_at_the_bottom_of_the_well_is_found(write: Callable[[Any], bytes]) -> None:
    value: Any = float("nan")
    for _ in range(10_000):
        value = {"a": [value]}

    error = refusal(write, value)
    assert error.path == "$" + ".a[0]" * 10_000
    assert len(error.message) < 500


def test_deep_nesting_does_not_overflow_with_little_stack_left(write: Callable[[Any], bytes]) -> None:
    value: Any = []
    for _ in range(200):
        value = [value]
    expected = b"[" * 201 + b"]" * 201

    def dig(levels: int) -> bytes:
        return dig(levels - 1) if levels else write(value)

    assert dig(700) == expected


def test_an_integer_too_long_for_python_to_print_keeps_its_digits(write: Callable[[Any], bytes]) -> None:
    assert write({"n": [10**5000]}) == b'{"n":[1' + b"0" * 5000 + b"]}"


def test_the_value_is_left_as_it_was(write: Callable[[Any], bytes]) -> None:
    value = {"b": [1.0, {"z": None, "a": (1, 2)}], "a": {"y": "\ud800", "x": 1e21}}
    before = copy.deepcopy(value)

    write(value)

    assert value == before
    assert [list(value), list(value["a"])] == [["b", "a"], ["y", "x"]]


def test_naughty_strings_come_back_the_same(write: Callable[[Any], bytes], shared_data: Any) -> None:
    strings = json.loads((shared_data / "naughty-strings" / "blns.json").read_text("utf-8"))
    by_key = {text: place for place, text in enumerate(strings)}

    assert len(strings) > 400
    assert json.loads(write(strings)) == strings
    assert json.loads(write(by_key)) == by_key


@pytest.fixture
def lowest_digit_limit() -> Iterator[None]:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(sys.int_info.str_digits_check_threshold)
    yield
    sys.set_int_max_str_digits(before)


# The sample of RFC 8785, appendix B, and the edges where ECMAScript changes its notation.
@pytest.mark.parametrize(
    ("bits", "text"),
    [
        (0x0000000000000000, "0"),
        (0x8000000000000000, "0"),
        (0x0000000000000001, "5e-324"),
        (0x8000000000000001, "-5e-324"),
        (0x7FEFFFFFFFFFFFFF, "1.7976931348623157e+308"),
        (0xFFEFFFFFFFFFFFFF, "-1.7976931348623157e+308"),
        (0x4340000000000000, "9007199254740992"),
        (0xC340000000000000, "-9007199254740992"),
        (0x4340000000000001, "9007199254740994"),
        (0x4430000000000000, "295147905179352830000"),
        (0x44B52D02C7E14AF5, "9.999999999999997e+22"),
        (0x44B52D02C7E14AF6, "1e+23"),
        (0x44B52D02C7E14AF7, "1.0000000000000001e+23"),
        (0x444B1AE4D6E2EF4E, "999999999999999700000"),
        (0x444B1AE4D6E2EF4F, "999999999999999900000"),
        (0x444B1AE4D6E2EF50, "1e+21"),
        (0x3EB0C6F7A0B5ED8C, "9.999999999999997e-7"),
        (0x3EB0C6F7A0B5ED8D, "0.000001"),
        (0x41B3DE4355555553, "333333333.3333332"),
        (0x41B3DE4355555554, "333333333.33333325"),
        (0x41B3DE4355555555, "333333333.3333333"),
        (0x41B3DE4355555556, "333333333.3333334"),
        (0x41B3DE4355555557, "333333333.33333343"),
        (0xBECBF647612F3696, "-0.0000033333333333333333"),
        (0x43143FF3C1CB0959, "1424953923781206.2"),
    ],
)
def test_floats_are_spelled_as_the_standard_samples_are(bits: int, text: str) -> None:
    (number,) = struct.unpack(">d", bits.to_bytes(8, "big"))
    assert format_float(number) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(1e16)
@example(1e-5)
@example(123456789012345680000.0)
def test_floats_are_spelled_as_the_reference_does_and_read_back_the_same(number: float) -> None:
    text = format_float(number)

    assert text.encode() == rfc8785.dumps(number)
    assert float(text) == number


def test_a_float_subclass_cannot_choose_its_own_spelling() -> None:
    class Loud(float):
        def __repr__(self) -> str:
            return "loud"

    assert format_float(Loud(1.5)) == "1.5"


@pytest.mark.parametrize("digits", [640, 641, 1024, 4300, 4301, 5000, 20_001])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.usefixtures("lowest_digit_limit")
def test_an_integer_keeps_all_its_digits_whatever_the_digit_limit_of_python_is(digits: int, sign: int) -> None:
    period = "1234567890" * (digits // 10 + 1)
    expected = period[:digits]
    number = 0
    for start in range(0, digits, 500):
        piece = expected[start : start + 500]
        number = number * 10 ** len(piece) + int(piece)

    assert format_integer(sign * number) == ("-" if sign < 0 else "") + expected


@pytest.mark.usefixtures("lowest_digit_limit")
def test_zeros_inside_a_long_integer_survive() -> None:
    for zeros in (1023, 1024, 1025, 4096):
        assert format_integer(10**zeros) == "1" + "0" * zeros
        assert format_integer(10**zeros - 1) == "9" * zeros


@given(st.integers())
def test_an_ordinary_integer_is_its_digits(number: int) -> None:
    assert format_integer(number) == str(number)
    assert format_integer(number * 2**70) == str(number * 2**70)


def test_a_whole_float_and_its_integer_are_one_number() -> None:
    for exponent in range(53):
        assert format_float(math.ldexp(1, exponent)) == format_integer(1 << exponent)
