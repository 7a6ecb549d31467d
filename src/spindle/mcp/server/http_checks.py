"""Checks of HTTP requests that need no server: the syntax of `Host` and `Origin`, request rates, and failed logins."""

import logging
import math
import re
import time
import zlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from itertools import pairwise
from typing import Final, TypeAlias

import anyio

from spindle.text import to_printable

_LOG: Final = logging.getLogger("spindle.mcp.server")
_MAX_PORT: Final = 65_535
_HOST: Final = re.compile(
    r"([A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])(?::([0-9]{1,5}|\*))?"
)
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}

HostAndPort: TypeAlias = tuple[str, str | None]


def parse_host(text: str) -> HostAndPort | None:
    """Return the lower-case name and the port of a `Host` header, or `None` if it is not exactly that."""
    found = _HOST.fullmatch(text)
    if found is None:
        return None
    name, port = found[1].lower(), found[2]
    if port is not None and port != "*" and not 0 < int(port) <= _MAX_PORT:
        return None
    if name.startswith("["):
        try:
            name = f"[{ip_address(name[1:-1])}]"
        except ValueError:
            return None
    return name, port


def parse_origin(text: str) -> tuple[str, HostAndPort] | None:
    """Return the scheme, and the name and port, of an `Origin` header, or `None` if it is not exactly that."""
    scheme, mark, rest = text.partition("://")
    parsed = parse_host(rest)
    if not mark or scheme.lower() not in _DEFAULT_PORTS or parsed is None:
        return None
    name, port = parsed
    return scheme.lower(), (name, port or _DEFAULT_PORTS[scheme.lower()])


def is_listed(given: HostAndPort, allowed: Iterable[HostAndPort | None]) -> bool:
    """Return whether a name with its port is in a list, in which `*` stands for any port."""
    name, port = given
    return port != "*" and any(entry in ((name, port), (name, "*" if port is not None else None)) for entry in allowed)


_SHARE: Final = 100
"""Requests are reported to other replicas when they are this part of a minute's."""


class RequestRates:
    """Limits the requests of each key: as many at once as in a minute, refilled evenly.

    With replicas, each counts the requests of all: `report` is called with a key and how many were counted here since,
    and `spend` with those of others.
    """

    def __init__(
        self,
        per_minute: int | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        report: Callable[[str, int], None] | None = None,
    ) -> None:
        self._per_minute, self._clock, self._report = per_minute, clock, report
        self._left: dict[str, tuple[float, float]] = {}
        self._unreported: Counter[str] = Counter()

    def count(self, key: str) -> float:
        """Count a request; return 0 if it is within the limit, else the seconds until the next one is."""
        if self._per_minute is None:
            return 0
        now, rate = self._clock(), self._per_minute / 60
        left = self._refill(key, now, self._per_minute)
        is_allowed = left >= 1
        self._left[key] = left - is_allowed, now
        if self._report is not None and is_allowed:
            self._unreported[key] += 1
            if self._unreported[key] >= self._per_minute / _SHARE:
                self._report(key, self._unreported.pop(key))
        return 0 if is_allowed else (1 - left) / rate

    def spend(self, key: str, requests: int) -> None:
        """Count requests that other replicas have answered."""
        if self._per_minute is not None:
            now = self._clock()
            self._left[key] = self._refill(key, now, self._per_minute) - requests, now

    def _refill(self, key: str, now: float, per_minute: int) -> float:
        left, last = self._left.get(key, (float(per_minute), now))
        return min(float(per_minute), left + (now - last) * per_minute / 60)


_MAX_ADDRESSES: Final = 10_000
_MAX_DELAYED: Final = 20
_FREE_FAILURES: Final = 3
_MAX_DELAY_SECONDS: Final = 5.0
_QUIET_SECONDS: Final = 300.0
_LOGGED_FAILURES: Final = 10


class FailedLogins:
    """Logs requests with a wrong token and answers them ever more slowly; a right token is never delayed."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._delayed: Counter[str] = Counter()

    async def slow_down(self, address: str) -> float:
        """Record a failure and wait; return the seconds to come back after, if too many wait already, else 0."""
        now = self._clock()
        count, last = self._failures.pop(address, (0, now))
        count = 1 if now - last > _QUIET_SECONDS else count + 1
        self._failures[address] = count, now
        if len(self._failures) > _MAX_ADDRESSES:
            self._failures.popitem(last=False)
        if count <= _LOGGED_FAILURES or count % 100 == 0:  # the log must not fill the disk
            _LOG.warning("wrong token from %s, %d in a row", to_printable(address, 100) or "unknown", count)
        if count <= _FREE_FAILURES:
            return 0
        seconds = min(0.25 * 2 ** min(count - _FREE_FAILURES - 1, 10), _MAX_DELAY_SECONDS)
        if self._delayed[address] >= _MAX_DELAYED:
            return seconds
        self._delayed[address] += 1
        try:
            await anyio.sleep(seconds)
        finally:
            self._delayed[address] -= 1
            if not self._delayed[address]:
                del self._delayed[address]
        return 0


MIN_TOKEN_BITS: Final = 128
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
_UUID_BITS: Final = 122.0
_WORD_BITS: Final = 1.5
"""Bits of one letter of ordinary text."""
_MIN_MIXED: Final = 0.18
"""The share of small and of large letters that words do not have."""
_CLASSES: Final = ((r"[0-9]", 10), (r"[a-z]", 26), (r"[A-Z]", 26), (r"[^0-9a-zA-Z]", 4))


def estimate_bits(token: str) -> float:
    """Estimate the entropy of a token from above; words, repetitions and sequences count for little."""
    if _UUID.fullmatch(token) and "-" in token:
        return _UUID_BITS
    if re.fullmatch(r"[0-9a-f]+|[0-9A-F]+", token):
        alphabet = 16 if re.search(r"[a-fA-F]", token) else 10
    else:
        alphabet = sum(size for pattern, size in _CLASSES if re.search(pattern, token))
    small, large = (len(re.findall(pattern, token)) / max(1, len(token)) for pattern in ("[a-z]", "[A-Z]"))
    is_mixed = min(small, large) > _MIN_MIXED
    each = math.log2(max(alphabet, 64 if is_mixed else 2))
    if not is_mixed and not re.search(r"[0-9]", token):
        each = _WORD_BITS  # letters alone are rather words than random
    steps = [ord(second) - ord(first) for first, second in pairwise(token)]
    predictable = sum(second == first for first, second in pairwise(steps))
    length = len(token) - (predictable if predictable > len(token) / 4 else 0)
    # What repeats itself compresses; the format itself takes some bytes.
    packed = 8.0 * max(0, len(zlib.compress(token.encode("utf-8", "surrogatepass"), 9)) - 8)
    return min(length * each, packed)
