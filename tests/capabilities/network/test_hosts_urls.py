from ipaddress import IPv4Address, IPv4Network
from random import Random
from urllib.parse import urlsplit

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spindle.capabilities.network.addresses import METADATA_V4, SPECIAL_V4, AddressPolicy, parse_address
from spindle.capabilities.network.handle import Reach
from spindle.capabilities.network.hosts import BAD_PORTS, HostList, WebAddress, join_url, parse_url
from spindle.errors import CapabilityError, HostNotAllowedError
from tests.fuzzing import draw_seeds, examples

ANYWHERE = Reach(HostList(["*"]), HostList(["*"]), AddressPolicy())


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://api.example", "https://api.example/"),
        ("HTTPS://API.Example.:443/a?b=c#d", "https://api.example/a?b=c"),
        ("http://api.example:80/", "http://api.example/"),
        ("http://api.example:8080", "http://api.example:8080/"),
        ("http://api.example:/x", "http://api.example/x"),
        ("https://api.example?q=1", "https://api.example/?q=1"),
        ("https://api.example/a b/ü?q=ü x", "https://api.example/a%20b/%C3%BC?q=%C3%BC%20x"),
        ("https://api.example/%2e%2e/x", "https://api.example/%2e%2e/x"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("http://[2606:4700::1111]:8080/", "http://[2606:4700::1111]:8080/"),
        ("http://0x8080808/", "http://8.8.8.8/"),
        ("https://api.example/?redirect=http://10.0.0.1/@x", "https://api.example/?redirect=http://10.0.0.1/@x"),
    ],
)
def test_a_url_has_one_spelling(text: str, url: str) -> None:
    assert parse_url(text).url == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "api.example",
        "//api.example/",
        "/path",
        "https:api.example",
        "https:/api.example",
        "https:///x",
        "https://",
        "file:///etc/passwd",
        "ftp://api.example/",
        "gopher://api.example/",
        "javascript:alert(1)",
        "data:,x",
        "ws://api.example/",
        "https://user@api.example/",
        "https://user:pw@api.example/",
        "https://@api.example/",
        "https://a@b@api.example/",
        "https://api.example@evil.example/",
        "https://api.example\\@evil.example/",
        "https://api.example\\.evil.example/",
        "https://api.example/\\x",
        " https://api.example/",
        "https://api.example /",
        "https://api.example\t/",
        "https://api\n.example/",
        "https://api.example/\r\nHost: x",
        "https://api.example/\0",
        "https://api.example:x/",
        "https://api.example:-1/",
        "https://api.example:0/",
        "https://api.example:65536/",
        "https://api.example:99999999/",
        "https://api.example:８０/",
        "https://[::1/",
        "https://::1/",
        "https://[::1]x/",
        "https://[fe80::1%eth0]/",
        "https://[fe80::1%25eth0]/",
        "https://[a]/",
        "https://api.example/\ud800",
        "https://api.example/" + "x" * 40_000,
        "https://1.2.3.4.5/",
        "https://a%2fb.example/",
        5,
        None,
    ],
    ids=lambda text: ascii(text)[:60],
)
def test_unsupported_urls_are_refused(text: str) -> None:
    with pytest.raises(CapabilityError):
        parse_url(text)


def test_a_refusal_does_not_repeat_the_url_for_it_may_hold_a_key() -> None:
    with pytest.raises(CapabilityError) as caught:
        parse_url("https://ada:hunter2@api.example/?key=sesame")

    assert "hunter2" not in str(caught.value)
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize("port", sorted(BAD_PORTS))
def test_ports_of_other_services_are_refused(port: int) -> None:
    with pytest.raises(CapabilityError):
        parse_url(f"http://api.example:{port}/")


@pytest.mark.parametrize("port", [80, 443, 3000, 8000, 8080, 8443, 9200, 65_535])
def test_other_ports_are_free(port: int) -> None:
    assert parse_url(f"http://api.example:{port}/").port == port


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("/b", "https://api.example:8443/b"),
        ("c?d", "https://api.example:8443/x/c?d"),
        ("?d", "https://api.example:8443/x/y?d"),
        ("//other.example/z", "https://other.example/z"),
        ("http://Other.example", "http://other.example/"),
        ("../../../z", "https://api.example:8443/z"),
        ("/ü", "https://api.example:8443/%C3%BC"),
    ],
)
def test_a_redirect_may_be_relative(location: str, url: str) -> None:
    assert join_url(WebAddress("https", "api.example", 8443, "/x/y"), location).url == url


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "javascript:1",
        "\\\\other.example",
        "/\\other.example",
        "//[::1",
        "//u@other.example",
        "/\n",
        "x" * 40_000,
    ],
    ids=lambda text: ascii(text)[:60],
)
def test_a_redirect_to_what_cannot_be_fetched_is_refused(location: str) -> None:
    with pytest.raises(CapabilityError):
        join_url(WebAddress("https", "api.example", 443, "/"), location)


# Every way to write an IPv4 address that some reader understands.
def parts_of(address: IPv4Address, count: int) -> list[int]:
    number = int(address)
    front = [number >> (24 - 8 * place) & 0xFF for place in range(count - 1)]
    return [*front, number & (1 << (8 * (5 - count))) - 1]


def v4_spelling(address: IPv4Address, random: Random) -> str:
    bases = ["{}", "0x{:x}", "0X{:X}", "0{:o}", "000{:o}", "0x00{:x}"]
    parts = [random.choice(bases).format(part) for part in parts_of(address, random.randint(1, 4))]
    text = random.choice(".。．｡").join(parts) + random.choice(["", ".", "。"])
    if random.random() < 0.5:
        return text
    return "".join(chr(ord(char) + 0xFEE0) if char.isalnum() and random.random() < 0.5 else char for char in text)


PREFIXES = [
    "::ffff:",
    "::FFFF:",
    "0:0:0:0:0:ffff:",
    "::",
    "64:ff9b::",
    "64:ff9b:1::",
    "::ffff:0:",
    "fe80::",
    "2606::5efe:",
]


def v6_spelling(address: IPv4Address, random: Random) -> str:
    number = int(address)
    high, low = number >> 16, number & 0xFFFF
    if random.random() < 0.1:
        return f"[2002:{high:x}:{low:x}::]"
    return f"[{random.choice(PREFIXES)}{random.choice([str(address), f'{high:x}:{low:x}', f'{high:04X}:{low:04X}'])}]"


def forbidden_url(seed: int) -> str:
    """One draw a case, so that a hundred thousand of them are cheap."""
    random = Random(seed)
    block, _ = random.choice(SPECIAL_V4)
    address = random.choice([block[random.randrange(block.num_addresses)], random.choice(sorted(METADATA_V4))])
    host = random.choice([v4_spelling, v6_spelling])(address, random)
    scheme, port = random.choice(["http", "https", "HTTP"]), random.choice(["", ":80", ":8080", ":"])
    return f"{scheme}://{host}{port}{random.choice(['', '/', '/x?y#z', '?a@b', '#@b'])}"


def check_forbidden(seed: int) -> None:
    with pytest.raises(CapabilityError):
        ANYWHERE.check(parse_url(forbidden_url(seed)))


@pytest.mark.slow
def test_no_spelling_of_a_forbidden_address_passes() -> None:
    for seed in draw_seeds(100_000):
        check_forbidden(seed)


@given(st.ip_addresses(v=4), st.integers(0, 2**64))
@settings(max_examples=examples(300), deadline=None)
def test_spellings_of_a_public_address_are_all_understood(address: IPv4Address, seed: int) -> None:
    assume(AddressPolicy().refusal(address) is None)

    target = parse_url(f"http://{v4_spelling(address, Random(seed))}/")

    assert target.host == str(address)
    ANYWHERE.check(target)


ATOMS = [
    "http",
    "https",
    ":",
    "/",
    "//",
    "@",
    "\\",
    "#",
    "?",
    "%",
    "[",
    "]",
    ".",
    "api.example",
    "evil.example",
    "127.1",
    "::1",
    "\t",
    "\n",
    " ",
    "。",
    "%40",
    "%2f",
    "80",
    "0x7f",
    "ü",
    "*",
    "-",
    "_",
    "\0",
    "http://",
    "https://",
    "a.",
    "x",
]


def some_url(seed: int) -> str:
    random = Random(seed)
    front = random.choice(["http://", "https://", "http://api.example", "https://a.api.example", ""])
    return front + "".join(random.choices(ATOMS, k=random.randint(0, 7)))


def check_covered(text: str) -> None:
    reach = Reach(HostList(["api.example", "*.api.example"]), HostList(["*"]), AddressPolicy())
    try:
        target = parse_url(text)
    except CapabilityError:
        return
    parsed = urlsplit(target.url)
    assert (parsed.scheme, parsed.hostname, parsed.username) == (target.scheme, target.host, None)
    assert parse_url(target.url) == target
    assert target.url.isascii()
    if target.host == "api.example" or target.host.endswith(".api.example"):
        reach.check(target)
        assert parse_address(target.host) is None
    else:
        with pytest.raises(HostNotAllowedError):
            reach.check(target)


@pytest.mark.slow
def test_accepted_urls_are_covered_by_a_pattern_and_parsed_alike_by_others() -> None:
    for seed in draw_seeds(50_000):
        check_covered(some_url(seed))


@given(st.text(max_size=40).map("http://{}".format))
@settings(max_examples=examples(5_000), deadline=None)
@pytest.mark.slow
def test_accepted_urls_of_any_text_are_covered_by_a_pattern(text: str) -> None:
    check_covered(text)


def test_the_fuzz_would_find_a_hole() -> None:
    lax = Reach(HostList(["*"]), HostList(["*"]), AddressPolicy([str(IPv4Network("127.0.0.0/8"))]))

    lax.check(parse_url("http://0x7f。1/"))
