"""Which addresses may be dialled. No I/O."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from spindle.capabilities.address_table import (
    GLOBAL_UNICAST,
    IPV4_COMPATIBLE,
    IPV4_TRANSLATED,
    LOCAL_NAT64,
    METADATA_V4,
    METADATA_V6,
    NAT64,
    SIX_TO_FOUR,
    SPECIAL_V4,
    SPECIAL_V6,
    TEREDO,
    IpAddress,
    IpNetwork,
)
from spindle.errors import CapabilityError

_ISATAP = {0x0000_5EFE, 0x0200_5EFE}
_LOW_32 = 0xFFFF_FFFF


def parse_address(text: str) -> IpAddress | None:
    """Read a strictly written address without a zone; anything else is `None`."""
    if "%" in text:
        return None
    try:
        return ip_address(text)
    except ValueError:
        return None


def unmapped(address: IpAddress) -> IpAddress:
    """Give the IPv4 address that a v4-mapped IPv6 address is another spelling of."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def carried(address: IpAddress) -> Iterator[IPv4Address]:
    """Give the IPv4 addresses to which a relay or tunnel would pass on what is sent to `address`."""
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


def special_use(address: IpAddress) -> str | None:
    """Name the special use of `address`, or give `None` for one of the public internet."""
    if isinstance(address, IPv4Address):
        return next((name for block, name in SPECIAL_V4 if address in block), None)
    if address.ipv4_mapped is not None:
        return "IPv4-mapped"
    name = next((name for block, name in SPECIAL_V6 if address in block), None)
    if name is None and address not in GLOBAL_UNICAST and address not in NAT64:
        return "reserved"
    return name


def is_metadata(address: IpAddress) -> bool:
    """Whether a cloud's metadata service answers at `address`, or behind it."""
    address = unmapped(address)
    if isinstance(address, IPv4Address):
        return address in METADATA_V4
    return address in METADATA_V6 or any(inner in METADATA_V4 for inner in _possible_v4(address))


def _possible_v4(address: IPv6Address) -> Iterator[IPv4Address]:
    bits = int(address)
    yield from carried(address)
    # A network may translate under a prefix of its own, which nobody outside can know; it is mostly a /96.
    yield IPv4Address(bits & _LOW_32)
    if address in LOCAL_NAT64:  # the three other places of RFC 6052; its octet 8 is skipped
        yield IPv4Address(((bits >> 64) & 0xFFFF) << 16 | (bits >> 40) & 0xFFFF)
        yield IPv4Address(((bits >> 64) & 0xFF) << 24 | (bits >> 32) & 0xFF_FFFF)
        yield IPv4Address((bits >> 24) & _LOW_32)


@dataclass(frozen=True, slots=True, init=False)
class AddressPolicy:
    """Public addresses, and the private ones the caller granted as CIDRs."""

    private: tuple[IpNetwork, ...]

    def __init__(self, private: Iterable[str] = ()) -> None:
        """Read the CIDRs.

        Raises:
            CapabilityError: One of them is none.
        """
        if isinstance(private, (str, bytes)):
            raise CapabilityError(
                f"private_addresses: expected a list of CIDRs, got {private!r}; write [{private!r}]",
                field="private_addresses",
            )
        object.__setattr__(self, "private", tuple(_network(text) for text in private))

    def refusal(self, address: IpAddress) -> str | None:
        """Say why `address` may not be dialled, or give `None` if it may."""
        if is_metadata(address):
            return "a cloud metadata address, which can never be granted"
        plain = unmapped(address)
        for one in (plain, *carried(plain)):
            use = special_use(one)
            if use is not None and not any(one in block for block in self.private):
                return f"not a public address ({use}); private ranges are granted with private_addresses=['<CIDR>']"
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
