"""One spelling for each host, and the one matcher of hosts. No I/O."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

import idna

from spindle.capabilities.addresses import parse_address
from spindle.errors import CapabilityError

_MAX_NAME = 253
_MAX_SPELLING = 1000
"""Before normalising: longer texts are not worth the work."""

_NAME = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")


def normalise_host(text: str) -> str:
    """Give the one spelling of a host: a lower-case ASCII name without trailing dot, or a canonical address.

    IPv4 addresses are read as browsers read them: parts may be decimal, octal or hexadecimal, and be left out.

    Raises:
        CapabilityError: That is no host.
    """
    if text.startswith("[") and text.endswith("]"):
        return _ipv6(text[1:-1], text)
    if ":" in text:
        return _ipv6(text, text)
    name = _ascii(text).removesuffix(".")
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        return str(_ipv4(name, text))
    if len(name) > _MAX_NAME or not _NAME.fullmatch(name):
        raise _no_host(text)
    return name


def _ascii(text: str) -> str:
    if len(text) > _MAX_SPELLING:
        raise _no_host(text[:40] + "…")
    if text.isascii():
        return text.lower()
    try:
        name = idna.uts46_remap(text, std3_rules=False, transitional=False)
        # Digits and dots of other scripts have now become plain ones, and may spell an address.
        return name if name.isascii() else idna.encode(name.removesuffix(".")).decode("ascii")
    except (idna.IDNAError, UnicodeError) as error:
        raise _no_host(text) from error


def _ipv4(name: str, text: str) -> IPv4Address:
    parts = name.split(".")
    if len(parts) > 4 or not all(_NUMBER.fullmatch(part) for part in parts):
        raise _no_host(text)
    try:
        *front, last = [_number(part) for part in parts]
    except ValueError as error:
        raise _no_host(text) from error
    if any(part > 255 for part in front) or last >= 256 ** (5 - len(parts)):
        raise _no_host(text)
    return IPv4Address(last + sum(part << (24 - 8 * place) for place, part in enumerate(front)))


def _number(part: str) -> int:
    if len(part) > 64:  # int() refuses very long ones in its own words
        raise ValueError(part)
    if part.startswith("0x"):
        return int(part[2:] or "0", 16)
    return int(part, 8 if part.startswith("0") else 10)


def _ipv6(inner: str, text: str) -> str:
    address = parse_address(inner)
    if not isinstance(address, IPv6Address):
        raise _no_host(text)
    return str(address)


def _no_host(text: str) -> CapabilityError:
    return CapabilityError(
        f"{text!r} is not a host: expected a name such as 'api.example.com' or an address, without a zone", field="host"
    )


@dataclass(frozen=True, slots=True)
class HostPattern:
    """One host, the subdomains of one (`*.example.com`), or any (`*`)."""

    suffix: str
    """The host itself; the parent of the subdomains; empty for any."""
    wild: bool

    @classmethod
    def parse(cls, text: str) -> "HostPattern":
        """Read a pattern.

        Raises:
            CapabilityError: It is none.
        """
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
            raise _no_pattern(text)
        if text == "*":
            return cls("", wild=True)
        wild = text.startswith("*.")
        try:
            suffix = normalise_host(text[2:] if wild else text)
        except CapabilityError as error:
            raise _no_pattern(text) from error
        if wild and parse_address(suffix) is not None:
            raise _no_pattern(text)
        return cls(suffix, wild=wild)

    def matches(self, host: str) -> bool:
        """Whether a normalised `host` is one of these."""
        if not self.wild:
            return host == self.suffix
        return not self.suffix or (host.endswith("." + self.suffix) and parse_address(host) is None)

    def covers(self, other: "HostPattern") -> bool:
        """Whether every host of `other` is one of these."""
        if not other.wild:
            return self.matches(other.suffix)
        if not self.wild:
            return False
        return not self.suffix or self.suffix == other.suffix or other.suffix.endswith("." + self.suffix)

    def __str__(self) -> str:
        if not self.wild:
            return self.suffix
        return f"*.{self.suffix}" if self.suffix else "*"


@dataclass(frozen=True, slots=True, init=False)
class HostList:
    """Host patterns; an empty list matches nothing."""

    patterns: tuple[HostPattern, ...]

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        """Read the patterns.

        Raises:
            CapabilityError: One of them is none, or they are no list.
        """
        if isinstance(patterns, (str, bytes)):
            raise CapabilityError(
                f"hosts: expected a list of hosts, got {patterns!r}; write [{patterns!r}]", field="hosts"
            )
        object.__setattr__(self, "patterns", tuple(HostPattern.parse(text) for text in patterns))

    def matches(self, host: str) -> bool:
        """Whether a normalised `host` is one of these."""
        return any(pattern.matches(host) for pattern in self.patterns)

    def uncovered(self, declared: "HostList") -> list[str]:
        """Name the patterns of `declared` that are not wholly granted here; `*` asks for whatever is granted."""
        return [
            str(need)
            for need in declared.patterns
            if need.suffix and not any(pattern.covers(need) for pattern in self.patterns)
        ]

    def __str__(self) -> str:
        shown = ", ".join(str(pattern) for pattern in self.patterns[:10])
        return shown + (", …" if len(self.patterns) > 10 else "") if shown else "none"


def _no_pattern(text: str) -> CapabilityError:
    return CapabilityError(
        f"{text!r} is not a host pattern: expected a host without scheme, port and path ('api.example.com'), "
        "its subdomains ('*.example.com'), or '*'",
        field="hosts",
    )
