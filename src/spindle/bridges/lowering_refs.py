"""References: kept and gathered in one place, or written out where they stand."""

from collections import Counter, deque
from typing import Any
from urllib.parse import quote, unquote

from spindle.bridges.losses import pointer
from spindle.bridges.lowering_parts import NOTES, SHELVES, Original, Part, Place
from spindle.bridges.lowering_restoring import Shape
from spindle.bridges.rules import Rules

_LEGAL = "/~!$&'()*+,;=:@?"
"""What may stand in the fragment of an address beside letters and digits."""
_ROUNDS = 2
"""How often a reference that leads back to itself is written out."""
_MAX_WRITTEN_OUT = 2_000
"""How many references of one schema are written out before the rest is left open."""


class References:
    """What is referred to in one schema."""

    def __init__(self, original: Original, rules: Rules) -> None:
        self._original = original
        self._rules = rules
        self._addresses: dict[int, str] = {id(original.root): "#"}
        self._paths: dict[str, str] = {"#": ""}
        self._taken: set[str] = set(original.root.get("$defs") or ())
        self._written_out = 0
        self._open: Counter[int] = Counter()
        self._leads: dict[str, set[str]] = {}
        self.owner = "#"
        """The address of the definition that is being lowered."""
        self.waiting: deque[tuple[str, Place]] = deque()
        self.shapes: dict[str, Shape | None] = {}
        self.shelves: dict[str, dict[str, Any]] = {}

    def is_kept(self, part: Part, keyword: str, target: Place, *, alone: bool) -> bool:
        """Say whether a reference stays one; `alone` where no other subschema speaks of the same value."""
        if self._rules.inline or keyword != "$ref":
            return False
        if not alone or not has_more(part, keyword):
            return alone
        # What stands beside it is told best by writing it out; but one that leads back to itself would never end.
        return not self._rules.lone_refs or self._is_inside(target)

    def _is_inside(self, target: Place) -> bool:
        return self._open[id(target[0])] > 0 or self._addresses.get(id(target[0])) == self.owner

    def address(self, target: Place, written: str) -> str:
        """Give the text of a reference to `target`, as it is `written` where it can be, and see that it leads there."""
        schema, path = target
        known = self._addresses.get(id(schema))
        if known is None:
            at = pointer("", *self._shelved(path))
            known = written if unquote(written) == f"#{at}" else f"#{quote(at, safe=_LEGAL)}"
            self._addresses[id(schema)] = known
            self.waiting.append((known, target))
            self._paths[known] = path
        self._leads.setdefault(self.owner, set()).add(known)
        return known

    def _shelved(self, path: str) -> tuple[str, str]:
        steps = [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]
        if len(steps) == 2 and steps[0] in SHELVES:
            return steps[0], steps[1]
        name = base = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in steps[-1])
        number = 2
        while name in self._taken:
            name, number = f"{base}_{number}", number + 1
        self._taken.add(name)
        return "$defs", name

    def shelve(self, address: str, lowered: Any, shape: Shape | None) -> None:
        """Keep a definition that was lowered."""
        shelf, name = (step.replace("~1", "/").replace("~0", "~") for step in unquote(address).split("/")[1:])
        self.shelves.setdefault(shelf, {})[name] = lowered
        self.shapes[address] = shape

    def enter(self, target: Place) -> str | None:
        """Begin to write a reference out; gives the reason where it must be left open instead."""
        if self._open[id(target[0])] >= _ROUNDS:
            return "leads back to itself: written out, then left open"
        if self._written_out >= _MAX_WRITTEN_OUT:
            return "too large to be written out any further: left open"
        self._written_out += 1
        self._open[id(target[0])] += 1
        return None

    def leave(self, target: Place) -> None:
        """End what `enter` began."""
        self._open[id(target[0])] -= 1

    def loop(self) -> str | None:
        """Point at a definition that leads back to itself, if there is one."""
        for start in self._leads:
            seen: set[str] = set()
            waiting = list(self._leads[start])
            while waiting:
                here = waiting.pop()
                if here == start:
                    return self._paths[start]
                if here not in seen:
                    seen.add(here)
                    waiting += self._leads.get(here, ())
        return None


def has_more(part: Part, keyword: str) -> bool:
    """Say whether something stands beside a reference."""
    return any(other not in (keyword, *SHELVES, "$comment") for other in part.schema)


def demands(part: Part, *besides: str) -> list[str]:
    """Give the keywords of a part that demand something of a value."""
    return [keyword for keyword in part.schema if keyword not in (*NOTES, *SHELVES, *besides)]
