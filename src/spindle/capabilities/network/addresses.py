"""The policy on IP addresses: special-purpose ranges, cloud metadata services and granted private ranges. No I/O."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

from spindle.errors import CapabilityError

IpAddress: TypeAlias = IPv4Address | IPv6Address
IpNetwork: TypeAlias = IPv4Network | IPv6Network

# IANA IPv4 and IPv6 Special-Purpose Address Registries, RFC 6890 and its updates. Blocks that IANA calls globally
# reachable (AS112, AMT) are left out; the anycast addresses inside 192.0.0.0/24 and 2001::/23 are included, because
# they lead to devices in the caller's own network.
SPECIAL_V4: tuple[tuple[IPv4Network, str], ...] = tuple(
    (IPv4Network(block), name)
    for block, name in (
        ("0.0.0.0/8", "this network"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by carriers (CGNAT)"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "IETF protocol assignments"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)

SPECIAL_V6: tuple[tuple[IPv6Network, str], ...] = tuple(
    (IPv6Network(block), name)
    for block, name in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::/96", "IPv4-compatible"),
        ("::ffff:0:0:0/96", "IPv4-translated"),
        ("64:ff9b:1::/48", "local NAT64"),
        ("100::/64", "discard-only"),
        ("100:0:0:1::/64", "dummy prefix"),
        ("2001::/32", "Teredo"),
        ("2001:db8::/32", "documentation"),
        ("2001::/23", "IETF protocol assignments"),
        ("2002::/16", "6to4"),
        ("3fff::/20", "documentation"),
        ("5f00::/16", "segment routing"),
        ("fc00::/7", "unique local"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
)

NAT64 = IPv6Network("64:ff9b::/96")
LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
IPV4_COMPATIBLE = IPv6Network("::/96")
IPV4_TRANSLATED = IPv6Network("::ffff:0:0:0/96")
SIX_TO_FOUR = IPv6Network("2002::/16")
TEREDO = IPv6Network("2001::/32")
GLOBAL_UNICAST = IPv6Network("2000::/3")
"""The allocated part of the IPv6 space; the rest is reserved."""

METADATA_V4 = frozenset(
    IPv4Address(text)
    for text in (
        "169.254.169.254",  # AWS, Azure, Google, Oracle, OpenStack, DigitalOcean and more
        "169.254.170.2",  # AWS container credentials
        "169.254.170.23",  # AWS pod identity
        "169.254.0.23",  # Tencent
        "169.254.42.42",  # Scaleway
        "100.100.100.200",  # Alibaba
        "168.63.129.16",  # Azure's host agent
        "192.0.0.192",  # Oracle classic
    )
)
METADATA_V6 = frozenset(
    IPv6Address(text)
    for text in (
        "fd00:ec2::254",  # AWS
        "fd00:ec2::23",  # AWS pod identity
        "fd20:ce::254",  # Google
        "fd00:42::42",  # Scaleway
        "fd00:c1::a9fe:a9fe",  # Oracle
        "fe80::a9fe:a9fe",  # OpenStack
    )
)
METADATA_NAMES = frozenset(
    {
        "instance-data",
        "instance-data.ec2.internal",
        "metadata",
        "metadata.aws.amazon.com",
        "metadata.azure.com",
        "metadata.azure.internal",
        "metadata.goog",
        "metadata.google.internal",
        "metadata.internal",
        "metadata.oraclecloud.com",
        "metadata.platformequinix.com",
        "metadata.tencentyun.com",
    }
)


_ISATAP = {0x0000_5EFE, 0x0200_5EFE}
_LOW_32 = 0xFFFF_FFFF


def parse_address(text: str) -> IpAddress | None:
    """Parse a strictly formatted address without a zone; return None for anything else."""
    if "%" in text:
        return None
    try:
        return ip_address(text)
    except ValueError:
        return None


def unmap_ipv4(address: IpAddress) -> IpAddress:
    """Return the IPv4 address of an IPv4-mapped IPv6 address; other addresses are returned unchanged."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def embedded_ipv4(address: IpAddress) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses to which a relay or tunnel would forward packets sent to `address`."""
    if isinstance(address, IPv4Address):
        return
    bits = int(address)
    tail = IPv4Address(bits & _LOW_32)
    compatible = address in IPV4_COMPATIBLE and bits > 1
    isatap = (bits >> 32) & _LOW_32 in _ISATAP
    if address in NAT64 or address in IPV4_TRANSLATED or compatible or isatap:
        yield tail
    if address in SIX_TO_FOUR:
        yield IPv4Address((bits >> 80) & _LOW_32)
    if address in TEREDO:
        yield IPv4Address((bits >> 64) & _LOW_32)
        yield IPv4Address((bits & _LOW_32) ^ _LOW_32)


def get_special_use(address: IpAddress) -> str | None:
    """Return the special use of `address`, or None for a public address."""
    if isinstance(address, IPv4Address):
        return next((name for block, name in SPECIAL_V4 if address in block), None)
    if address.ipv4_mapped is not None:
        return "IPv4-mapped"
    name = next((name for block, name in SPECIAL_V6 if address in block), None)
    if name is None and address not in GLOBAL_UNICAST and address not in NAT64:
        return "reserved"
    return name


def is_metadata(address: IpAddress) -> bool:
    """Return True if `address` is, or is forwarded to, a cloud metadata service."""
    address = unmap_ipv4(address)
    if isinstance(address, IPv4Address):
        return address in METADATA_V4
    return address in METADATA_V6 or any(inner in METADATA_V4 for inner in _possible_v4(address))


def _possible_v4(address: IPv6Address) -> Iterator[IPv4Address]:
    bits = int(address)
    yield from embedded_ipv4(address)
    # A network may use its own, unknown NAT64 prefix, usually a /96.
    yield IPv4Address(bits & _LOW_32)
    if address in LOCAL_NAT64:  # the three other positions of RFC 6052, which skips octet 8
        yield IPv4Address(((bits >> 64) & 0xFFFF) << 16 | (bits >> 40) & 0xFFFF)
        yield IPv4Address(((bits >> 64) & 0xFF) << 24 | (bits >> 32) & 0xFF_FFFF)
        yield IPv4Address((bits >> 24) & _LOW_32)


@dataclass(frozen=True, slots=True, init=False)
class AddressPolicy:
    """The allowed addresses: public ones and the private ranges the caller granted as CIDRs."""

    private: tuple[IpNetwork, ...]

    def __init__(self, private: Iterable[str] = ()) -> None:
        """Parse the CIDRs.

        Raises:
            CapabilityError: A CIDR is invalid.
        """
        if isinstance(private, (str, bytes)):
            raise CapabilityError(
                f"private_addresses: expected a list of CIDRs, got {private!r}; write [{private!r}]",
                field="private_addresses",
            )
        object.__setattr__(self, "private", tuple(_network(text) for text in private))

    def refusal(self, address: IpAddress) -> str | None:
        """Return why `address` may not be dialled, or None if it may."""
        if is_metadata(address):
            return "a cloud metadata address, which can never be granted"
        plain = unmap_ipv4(address)
        for one in (plain, *embedded_ipv4(plain)):
            use = get_special_use(one)
            if use is not None and not any(one in block for block in self.private):
                return f"not a public address ({use}); grant private ranges with private_addresses=['<CIDR>']"
        return None


def _network(text: str) -> IpNetwork:
    try:
        network = ip_network(str(text))
    except ValueError as error:
        raise CapabilityError(
            f"private_addresses: expected CIDRs such as '10.1.0.0/16', got {text!r}: {error}",
            field="private_addresses",
        ) from error
    if isinstance(network.network_address, IPv6Address) and network.network_address.scope_id is not None:
        raise CapabilityError(f"private_addresses: {text!r} has a zone; leave it out", field="private_addresses")
    return network
