from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.capabilities.network.addresses import (
    METADATA_V4,
    METADATA_V6,
    SPECIAL_V4,
    SPECIAL_V6,
    AddressPolicy,
    embedded_ipv4,
    get_special_use,
    is_metadata,
    parse_address,
)
from spindle.errors import CapabilityError
from tests.fuzzing import examples

NOTHING = AddressPolicy()
EVERYTHING = AddressPolicy(["0.0.0.0/0", "::/0"])

REFUSED_TEXT = """
0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 127.0.0.1 127.255.255.254 169.254.1.1
172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.8 192.0.0.9 192.0.0.170 192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1
198.19.255.255 198.51.100.7 203.0.113.9 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
:: ::1 ::127.0.0.1 ::7f00:1 ::8.8.8.8 ::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:10.0.0.1 ::ffff:0:127.0.0.1 ::ffff:0:8.8.8.8
64:ff9b::7f00:1 64:ff9b::10.0.0.1 64:ff9b:1::1 64:ff9b:1::808:808 100::1 100:0:0:1::1 2001::1 2001:0:808:808::f7f7:f7f7
2001:1::1 2001:2::1 2001:10::1 2001:20::1 2001:db8::1 2002:7f00:1::1 2002:a00:1::1 2002:808:808::1 3fff::1 5f00::1
fc00::1 fd12:3456::1 fe80::1 fe90::1 febf::1 fec0::1 feff::1 ff02::1 ff0e::1 200::1 4000::1 8000::1 e000::1
2606:4700::5efe:10.0.0.1 2606:4700::200:5efe:127.0.0.1 fe80::5efe:8.8.8.8
"""
REFUSED = REFUSED_TEXT.split()

ALLOWED_TEXT = """
1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 169.253.255.255 169.255.0.0
172.15.255.255 172.32.0.0 192.0.1.0 192.31.196.1 192.52.193.1 192.167.255.255 192.169.0.0 192.175.48.1 198.17.255.255
198.20.0.0 223.255.255.255 2606:4700::1111 2001:4860:4860::8888 2620:4f:8000::1 2a00:1450::1 64:ff9b::808:808
::ffff:8.8.8.8 2606:4700::5efe:8.8.8.8
"""
ALLOWED = ALLOWED_TEXT.split()


@pytest.mark.parametrize("text", REFUSED)
def test_an_address_that_is_not_public_is_refused(text: str) -> None:
    assert NOTHING.refusal(ip_address(text)) is not None


@pytest.mark.parametrize("text", ALLOWED)
def test_a_public_address_may_be_dialled(text: str) -> None:
    assert NOTHING.refusal(ip_address(text)) is None


@pytest.mark.parametrize("text", [text for text in REFUSED if ip_address(text) not in METADATA_V6])
def test_a_special_address_may_be_dialled_where_everything_is_granted(text: str) -> None:
    assert EVERYTHING.refusal(ip_address(text)) is None


@pytest.mark.parametrize(
    ("grant", "inside", "outside"),
    [
        ("127.0.0.0/8", "127.0.0.1", "10.0.0.1"),
        ("127.0.0.1", "127.0.0.1", "127.0.0.2"),
        ("10.1.0.0/16", "::ffff:10.1.2.3", "::ffff:10.2.2.3"),
        ("10.1.0.0/16", "64:ff9b::a01:203", "64:ff9b::a02:203"),
        ("::1/128", "::1", "::2"),
        ("fd00::/8", "fd12::1", "fc12::1"),
        ("2002::/16", "2002:808:808::1", "2002:a00:1::1"),
        ("2606:4700::/32", "2606:4700::1", "2606:4700::5efe:10.0.0.1"),
    ],
)
def test_a_grant_opens_its_range_and_nothing_behind_it(grant: str, inside: str, outside: str) -> None:
    policy = AddressPolicy([grant])

    assert policy.refusal(ip_address(inside)) is None
    assert policy.refusal(ip_address(outside)) is not None


def metadata_spellings() -> list[str]:
    spelled = [str(address) for address in (*METADATA_V4, *METADATA_V6)]
    for address in METADATA_V4:
        number = int(address)
        high, low = number >> 16, number & 0xFFFF
        tail = f"{high:x}:{low:x}"
        spelled += [f"::ffff:{tail}", f"::{tail}", f"64:ff9b::{tail}", f"64:ff9b:1::{tail}", f"2002:{tail}::1"]
        spelled += [f"::ffff:0:{tail}", f"fe80::5efe:{tail}", f"2001:db8::200:5efe:{tail}", f"2606:4700:64::{tail}"]
        inverted = number ^ 0xFFFF_FFFF
        spelled += [f"2001:0:{tail}::1", f"2001:0:808:808::{inverted >> 16:x}:{inverted & 0xFFFF:x}"]
        spelled += [str(IPv6Address(0x0064_FF9B_0001 << 80 | high << 64 | low << 40))]
        spelled += [str(IPv6Address(0x0064_FF9B_0001 << 80 | (number >> 24) << 64 | (number & 0xFF_FFFF) << 32))]
        spelled += [str(IPv6Address(0x0064_FF9B_0001 << 80 | number << 24))]
    return sorted(spelled)


@pytest.mark.parametrize("text", metadata_spellings())
def test_a_metadata_address_can_never_be_granted(text: str) -> None:
    assert is_metadata(ip_address(text))
    assert EVERYTHING.refusal(ip_address(text)) is not None


@pytest.mark.parametrize(
    "bad", ["10.0.0.1/8", "loopback", "", "10.0.0.0/33", "fe80::1%eth0", "fe80::%eth0/64", 5, None]
)
def test_a_grant_that_is_not_a_cidr_is_refused(bad: str) -> None:
    with pytest.raises(CapabilityError) as caught:
        AddressPolicy([bad])

    assert caught.value.field == "private_addresses"


def test_a_lone_text_is_not_a_list_of_grants() -> None:
    with pytest.raises(CapabilityError):
        AddressPolicy("10.0.0.0/8")


@pytest.mark.parametrize("text", ["fe80::1%eth0", "1.2.3", "0177.0.0.1", "localhost", "", "[::1]", "1.2.3.4/32"])
def test_only_plain_addresses_are_read(text: str) -> None:
    assert parse_address(text) is None


v4_specials = st.sampled_from([block for block, _ in SPECIAL_V4]).flatmap(lambda block: st.ip_addresses(network=block))
v6_specials = st.sampled_from([block for block, _ in SPECIAL_V6]).flatmap(lambda block: st.ip_addresses(network=block))


@given(v4_specials)
@settings(max_examples=examples(500), deadline=None)
def test_no_wrapping_makes_a_special_address_public(address: IPv4Address) -> None:
    number = int(address)
    wrapped = [
        0xFFFF << 32 | number,
        number,
        0xFFFF_0000_0000 << 16 | number,
        0x0064_FF9B << 96 | number,
        0x2002 << 112 | number << 80 | 1,
        0x2001_0000 << 96 | 0x0808_0808 << 64 | number ^ 0xFFFF_FFFF,
        0x2001_0000 << 96 | number << 64,
        0x2606_4700 << 96 | 0x5EFE << 32 | number,
        0x2606_4700 << 96 | 0x0200_5EFE << 32 | number,
    ]

    assert NOTHING.refusal(address) is not None
    assert [IPv6Address(bits) for bits in wrapped if NOTHING.refusal(IPv6Address(bits)) is None] == []


@given(v6_specials)
@settings(max_examples=examples(500), deadline=None)
def test_no_special_ipv6_address_is_public(address: IPv6Address) -> None:
    assert get_special_use(address) is not None
    assert NOTHING.refusal(address) is not None


@given(st.ip_addresses(v=4))
@settings(deadline=None)
def test_addresses_that_python_calls_private_are_refused_too(address: IPv4Address) -> None:
    if address.is_private or address.is_multicast or address.is_reserved:
        assert NOTHING.refusal(address) is not None
    if NOTHING.refusal(address) is None:
        assert not any(address in block for block in (IPv4Network("10.0.0.0/8"), IPv4Network("127.0.0.0/8")))


@given(st.ip_addresses(v=6))
@settings(deadline=None)
def test_ipv6_outside_global_unicast_is_refused(address: IPv6Address) -> None:
    if int(address) >> 125 != 1 and address.ipv4_mapped is None and not list(embedded_ipv4(address)):
        assert NOTHING.refusal(address) is not None
