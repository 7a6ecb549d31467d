import socket
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.capabilities.network.addresses import parse_address
from spindle.capabilities.network.hosts import HostList, HostPattern, normalise_host
from spindle.errors import CapabilityError
from tests.fuzzing import draw_seeds, examples


@pytest.mark.parametrize(
    ("spelled", "host"),
    [
        ("API.Shop.Example", "api.shop.example"),
        ("api.shop.example.", "api.shop.example"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("faß.example", "xn--fa-hia.example"),
        ("api。shop．example", "api.shop.example"),
        ("ⓛⓞⓒⓐⓛⓗⓞⓢⓣ", "localhost"),
        ("local\u00adhost", "localhost"),
        ("my_service", "my_service"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("127.0.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0X7F.0.0.1", "127.0.0.1"),
        ("0x7f.0x0.0x0.0x1", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("0177.0.0.01", "127.0.0.1"),
        ("0x", "0.0.0.0"),
        ("0", "0.0.0.0"),
        ("１２７.０.０.１", "127.0.0.1"),
        ("①②⑦.⓪.⓪.①", "127.0.0.1"),
        ("[::1]", "::1"),
        ("::1", "::1"),
        ("[0:0:0:0:0:0:0:1]", "::1"),
        ("[FE80::1]", "fe80::1"),
    ],
)
def test_a_host_has_one_spelling(spelled: str, host: str) -> None:
    assert normalise_host(spelled) == host


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "..",
        "a..b",
        ".a",
        "a.b..",
        "1.2.3.4..",
        "a b",
        "a/b",
        "a\\b",
        "a@b",
        "a%2eb",
        "%31",
        "a\0b",
        "a\nb",
        "a?b",
        "256.1.1.1",
        "1.2.3.4.5",
        "4294967296",
        "1.16777216",
        "08.1.1.1",
        "0x7g.1.1.1",
        "foo.1",
        "foo.0x1",
        "[::1",
        "::1]",
        "[127.0.0.1]",
        "[fe80::1%eth0]",
        "fe80::1%1",
        "[fe80::1%25eth0]",
        "[::g]",
        "[]",
        "host:80",
        "*",
        "*.a",
        "-a.example",
        "a-.example",
        "a" * 64 + ".example",
        "a." * 127 + "aa",
        "x" * 5000,
        "☃.example",
        "a\u200db.example",
        "\ud800",
        "9" * 5000,
        "0x" + "f" * 100,
    ],
    ids=lambda text: ascii(text)[:40],
)
def test_a_value_that_is_not_a_host_is_refused(text: str) -> None:
    with pytest.raises(CapabilityError):
        normalise_host(text)


@pytest.mark.parametrize(
    ("pattern", "host", "matches"),
    [
        ("api.example", "api.example", True),
        ("API.Example.", "api.example", True),
        ("api.example", "x.api.example", False),
        ("api.example", "example", False),
        ("*.example.com", "a.example.com", True),
        ("*.example.com", "a.b.example.com", True),
        ("*.Example.COM", "a.example.com", True),
        ("*.example.com", "example.com", False),
        ("*.example.com", "badexample.com", False),
        ("*.example.com", "example.com.evil.net", False),
        ("*.bücher.example", "a.xn--bcher-kva.example", True),
        ("*", "anything.example", True),
        ("*", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.1", True),
        ("0x7f.1", "127.0.0.1", True),
        ("[::1]", "::1", True),
        ("::1", "::1", True),
    ],
)
def test_there_is_one_matcher(pattern: str, host: str, matches: bool) -> None:
    assert HostPattern.parse(pattern).matches(host) is matches
    assert HostList([pattern]).matches(host) is matches


@pytest.mark.parametrize(
    "text",
    [
        "",
        "*.",
        "**",
        "*a.example",
        "a.*.example",
        "*.*",
        "*.0.0.1",
        "*.[::1]",
        "*.::1",
        "https://a.example",
        "a.example:80",
        "a.example/path",
        "user@a.example",
        " a.example",
        "*.*.example",
        5,
        None,
    ],
)
def test_a_value_that_is_not_a_pattern_is_refused(text: str) -> None:
    with pytest.raises(CapabilityError) as caught:
        HostList([text])

    assert caught.value.field == "hosts"


def test_a_lone_text_is_not_a_list() -> None:
    with pytest.raises(CapabilityError):
        HostList("api.example")


def test_an_empty_list_matches_nothing() -> None:
    assert not HostList().matches("api.example")


@pytest.mark.parametrize(
    ("granted", "declared", "uncovered"),
    [
        (["*"], ["a.example", "*.example", "*"], []),
        (["a.example"], ["a.example", "b.example"], ["b.example"]),
        (["*.example"], ["a.example", "*.b.example", "*.example"], []),
        (["*.example"], ["example"], ["example"]),
        (["*.b.example"], ["*.example"], ["*.example"]),
        (["a.example"], ["*.a.example"], ["*.a.example"]),
        ([], ["a.example"], ["a.example"]),
        (["a.example"], ["*"], []),
    ],
)
def test_needs_that_are_not_granted_are_named(granted: list[str], declared: list[str], uncovered: list[str]) -> None:
    assert HostList(granted).find_uncovered(HostList(declared)) == uncovered


def test_a_pattern_is_written_as_it_was_meant() -> None:
    assert str(HostList(["A.example", "*.B.example", "*"])) == "a.example, *.b.example, *"


labels = st.text(st.sampled_from("ab-1_é。0x"), min_size=1, max_size=4)
names = st.lists(labels, min_size=1, max_size=4).map(".".join)
ATOMS = [*"abfx0127.-_%:[]。①é\u00ad\u200d\ud800 /@*", "0x", "xn--", "..", "::", "127.0.0.1", "example", "ffff"]


def some_host(seed: int) -> str:
    """One draw a case, so that fifty thousand of them are cheap."""
    random = Random(seed)
    return "".join(random.choices(ATOMS, k=random.randint(1, 12)))


def check_host(text: str) -> None:
    try:
        host = normalise_host(text)
    except CapabilityError:
        return
    assert normalise_host(host) == host
    assert host.isascii()
    assert host == host.lower()
    assert not set(host) & set(" /\\@?#%[]*")
    if parse_address(host) is None:
        # What we take for a name must not be an address to the system's own reader.
        with pytest.raises(OSError, match="illegal"):
            socket.inet_aton(host)


@pytest.mark.slow
def test_odd_hosts_are_names_or_addresses_but_never_both() -> None:
    for seed in draw_seeds(50_000):
        check_host(some_host(seed))


@given(st.one_of(names, st.text(max_size=60), st.from_regex(r"\A[0-9a-fx.%:\[\]。①]{1,30}\Z")))
@settings(max_examples=examples(5_000), deadline=None)
@pytest.mark.slow
def test_hosts_of_any_text_are_names_or_addresses_but_never_both(text: str) -> None:
    check_host(text)


@given(names, st.lists(st.one_of(names, names.map("*.{}".format), st.just("*")), max_size=4))
@settings(max_examples=examples(300), deadline=None)
def test_whatever_matches_is_covered_by_a_pattern_as_written(name: str, patterns: list[str]) -> None:
    try:
        host, hosts = normalise_host(name), HostList(patterns)
    except CapabilityError:
        return
    spelled = [str(pattern) for pattern in hosts.patterns]
    plainly = (
        host in spelled
        or "*" in spelled
        or any(text.startswith("*.") and host.endswith(text[1:]) and parse_address(host) is None for text in spelled)
    )

    assert hosts.matches(host) == plainly


@given(names, names, names)
@settings(max_examples=examples(300), deadline=None)
def test_a_pattern_covers_another_only_if_it_matches_all_its_hosts(first: str, second: str, name: str) -> None:
    try:
        wide, narrow = HostPattern.parse("*." + first), HostPattern.parse("*." + second)
        host = normalise_host(f"{name}.{second}")
    except CapabilityError:
        return
    if wide.covers(narrow) and narrow.matches(host):
        assert wide.matches(host)
