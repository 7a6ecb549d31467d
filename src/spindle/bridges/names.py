"""Tool names on the wire: what a provider refuses is mapped, the same way in every process, and mapped back."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from spindle.bridges.limits import Limits
from spindle.errors import NameClashError

_DIGEST_CHARS = 8


@dataclass(frozen=True, slots=True)
class NameMap:
    """Names both ways: a tool's own, and the one the provider knows it by.

    Raises:
        NameClashError: Two tools would have the same name on the wire.
    """

    wire: Mapping[str, str]
    """The wire name of each tool."""
    own: Mapping[str, str]
    """The tool of each wire name."""

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]], *, dialect: str) -> "NameMap":
        """Make the map of `(own, wire)` pairs."""
        wire: dict[str, str] = {}
        own: dict[str, str] = {}
        for name, wire_name in pairs:
            other = own.setdefault(wire_name, name)
            if other != name:
                raise NameClashError(
                    f"the tools {other!r} and {name!r} would both be called {wire_name!r} in {dialect}, which does not "
                    "take every name as it is; rename one of them, or leave one out",
                    tool=name,
                    wire_name=wire_name,
                    tools=(other, name),
                )
            wire[name] = wire_name
        return cls(MappingProxyType(wire), MappingProxyType(own))

    def to_wire(self, name: str) -> str:
        """Give the name the provider knows; a name that is not in the map stays as it is."""
        return self.wire.get(name, name)

    def to_own(self, wire_name: str) -> str:
        """Give the tool's own name; a name that is not in the map stays as it is."""
        return self.own.get(wire_name, wire_name)

    @property
    def mapped(self) -> dict[str, str]:
        """The tools whose name had to be changed, with their name on the wire."""
        return {name: wire_name for name, wire_name in self.wire.items() if name != wire_name}

    def __iter__(self) -> Iterator[str]:
        return iter(self.wire)

    def __len__(self) -> int:
        return len(self.wire)


def wire_name(name: str, limits: Limits) -> str:
    """Give the name itself where the provider takes it, else the nearest one that it takes."""
    return fitted(name, limits.name_pattern, limits.max_name_chars)


def property_name(name: str, limits: Limits) -> str:
    """Give an argument's name itself where the provider takes it, else the nearest one that it takes."""
    if limits.property_pattern is None or limits.max_property_chars is None:
        return name
    return fitted(name, limits.property_pattern, limits.max_property_chars)


def fitted(name: str, pattern: str, max_chars: int) -> str:
    """Give the name itself where it matches `pattern`, else the nearest one that does."""
    if re.fullmatch(pattern, name):
        return name
    legal = "".join(letter if re.fullmatch(pattern, f"a{letter}") else "_" for letter in name)
    if not re.fullmatch(pattern, legal[:1]):
        legal = f"_{legal}"
    if len(legal) > max_chars or not legal.strip("_"):
        # A cut, or a name of which nothing is left, says too little: a digest of the whole tells namesakes apart.
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
        legal = f"{legal[: max_chars - _DIGEST_CHARS - 1].rstrip('_')}_{digest}"
    return legal
