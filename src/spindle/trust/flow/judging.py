"""The rules of a flow policy: for each role, where a value must come from, and the sentence if it does not."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from spindle.text import to_line, to_printable
from spindle.trust.flow.identifiers import find_identifiers, find_phrases, find_private_values
from spindle.trust.flow.ledger import FlowLedger, Source, has_words, to_text
from spindle.trust.flow.roles import Content, Free, Leaf, Ref, Setting, Target, ToolFlow
from spindle.trust.flow.said import Moment
from spindle.trust.flow.text_index import TextIndex

_MAX_SHOWN: Final = 80
_MAX_REASONS: Final = 8
_MAX_CONTENT_CHARS: Final = 50_000
_PHRASE_WORDS: Final = 8
_MIN_TARGET_CHARS: Final = 2
_SHORT_ID_CHARS: Final = 3


class Vouched:
    """The values that the operator vouches for."""

    def __init__(self, directory: Mapping[str, Collection[str]]) -> None:
        self._by_key: dict[str, TextIndex[str]] = {}
        self._values: dict[str, frozenset[str]] = {}
        for key, values in directory.items():
            self._values[key] = frozenset(to_line(value).casefold() for value in values)

    def has(self, key: str, value: str) -> bool:
        """Return whether the directory has a value, whole and without regard to case, under a role or a kind."""
        return key in self._values and to_line(value).casefold() in self._values[key]


class Judge:
    """Judges one call to a sink in a tainted session."""

    def __init__(
        self,
        tool: ToolFlow,
        leaves: Sequence[Leaf],
        ledger: FlowLedger,
        vouched: Vouched,
        readers: Mapping[str, Collection[str]],
    ) -> None:
        self._tool, self._ledger, self._vouched, self._readers = tool, ledger, vouched, readers
        self._roles = [(leaf, tool.get_role(leaf)) for leaf in leaves]
        self._targets = [to_text(leaf.value) for leaf, role in self._roles if isinstance(role, Target)]

    def find_reasons(self) -> list[str]:
        """Return why a person must approve the call; nothing if it may run."""
        tool = self._tool
        if tool.destructive:
            return [f"{_quote(tool.name)} is destructive, and the session has read {self._describe_taint()}"]
        reasons: dict[str, None] = {}
        has_anchor = False
        for leaf, role in self._roles:
            if isinstance(role, Free) or self._is_default(leaf):
                continue
            has_anchor = True
            for reason in self._judge_leaf(leaf, role):
                reasons.setdefault(reason)
            if len(reasons) >= _MAX_REASONS:
                break
        if not has_anchor:
            return [f"nothing in this call comes from the user, and the session has read {self._describe_taint()}"]
        return list(reasons)

    def _judge_leaf(self, leaf: Leaf, role: Target | Ref | Setting | Content | Free) -> Iterator[str]:
        if isinstance(role, Target):
            yield from self._judge_target(leaf)
        elif isinstance(role, Ref):
            yield from self._judge_ref(leaf, role)
        elif isinstance(role, Setting):
            yield from self._judge_setting(leaf)
        else:
            yield from self._judge_content(leaf)

    def _judge_target(self, leaf: Leaf) -> Iterator[str]:
        text = to_text(leaf.value)
        if self._vouched.has("target", text):
            return
        if len(text.strip()) < _MIN_TARGET_CHARS or self._ledger.find_vouched(text) is None:
            yield f"{leaf.name} {_quote(text)} {self._describe_origin(text)}"

    def _judge_ref(self, leaf: Leaf, role: Ref) -> Iterator[str]:
        text, ledger = to_text(leaf.value), self._ledger
        if self._vouched.has(role.kind, text) or ledger.has_made(role.kind, text):
            return
        if ledger.find_named(role.kind, text) is None and not self._has_said_id(role.kind, text):
            yield (
                f"{leaf.name} {_quote(text)}: this {to_printable(role.kind, 40)} was neither made in this session nor "
                f"named by the user"
            )

    def _has_said_id(self, kind: str, text: str) -> bool:
        user = self._ledger.user
        if len(text) > _SHORT_ID_CHARS:
            return user.find(text) is not None
        # A short number may be a day or an amount; it counts if it was called an id.
        return any(
            user.find(f"{word}{text}") is not None for word in (f"{kind} ", "id ", "id: ", "id=", "#", "number ")
        )

    def _judge_setting(self, leaf: Leaf) -> Iterator[str]:
        value, ledger = leaf.value, self._ledger
        text = to_text(value)
        if self._vouched.has("setting", text):
            return
        if isinstance(value, bool):
            is_said = value and has_words(leaf.name.replace("_", " ").replace(".", " "), (ledger.user,))
        elif isinstance(value, str):
            moment = Moment.read(value)
            is_said = ledger.user.find(text) is not None or (
                moment is not None and ledger.said.has_moment(moment, self._collect_moments())
            )
            is_said = is_said or _is_said_number(text, ledger)
        else:
            is_said = ledger.said.has_number(value)
        if not is_said:
            yield f"{leaf.name} {_quote(text)} was not said by the user{self._describe_place(text)}"

    def _collect_moments(self) -> tuple[Moment, ...]:
        texts = [leaf.value for leaf, role in self._roles if isinstance(role, Setting) and isinstance(leaf.value, str)]
        return tuple(filter(None, map(Moment.read, texts)))

    def _judge_content(self, leaf: Leaf) -> Iterator[str]:
        text, ledger = to_text(leaf.value), self._ledger
        if len(text) > _MAX_CONTENT_CHARS:
            yield f"{leaf.name} has {len(text)} characters, which is too long to be judged"
            return
        if self._vouched.has("content", text) or ledger.find_vouched(text) is not None:
            return
        foreign = [each for each in find_identifiers(text) if not self._is_vouched_identifier(each)]
        for each in foreign[:_MAX_REASONS]:
            yield f"{leaf.name} contains {_quote(each)}, which {self._describe_origin(each)}"
        if foreign or not self._targets:
            return
        if has_words(text, (ledger.user, ledger.trusted)):
            return
        unnamed = [each for each in self._targets if ledger.user.find(each) is None]
        if unnamed:
            yield f"{leaf.name} goes to {_quote(unnamed[0])}, whom the user did not name, in words of somebody else"
            return
        yield from self._find_private(leaf, text)

    def _is_vouched_identifier(self, value: str) -> bool:
        return self._vouched.has("target", value) or self._ledger.find_vouched(value) is not None

    def _find_private(self, leaf: Leaf, text: str) -> Iterator[str]:
        """Yield why a text carries values of a private source to one who is not its reader."""
        seen: set[str] = set()
        for value in (*find_private_values(text), *find_phrases(text, _PHRASE_WORDS)):
            if self._ledger.find_vouched(value) is not None:
                continue
            for source in self._ledger.other.search(value):
                outsider = self._find_outsider(source)
                if outsider is not None and source.tool not in seen:
                    seen.add(source.tool)
                    yield (
                        f"{leaf.name} carries {_quote(value)} of {_describe(source)}, which is private, to "
                        f"{_quote(outsider)}, who is not among its readers"
                    )
            if value and self._ledger.has_lost_private and not seen:
                seen.add("")
                yield f"{leaf.name} carries {_quote(value)}, and private content of this session is no longer in memory"

    def _find_outsider(self, source: Source) -> str | None:
        """Return a target of the call who may not read a source; `None` if all may, or if it is not private."""
        if source.label != "third-party-private" and source.tool not in self._readers:
            return None
        allowed = {reader.casefold() for reader in self._readers.get(source.tool, ())}
        if "*" in allowed:
            return None
        return next((target for target in self._targets if target.strip().casefold() not in allowed), None)

    def _is_default(self, leaf: Leaf) -> bool:
        name = leaf.path[0]
        return len(leaf.path) == 1 and name in self._tool.defaults and self._tool.defaults[name] == leaf.value

    def _describe_taint(self) -> str:
        source = self._ledger.tainted_by
        return "third-party content" if source is None else f"third-party content ({_describe(source)})"

    def _describe_origin(self, text: str) -> str:
        source = self._ledger.find_foreign(text)
        if source is not None:
            return f"appears only in {_describe(source)}"
        return "appears neither in the user's words nor in a trusted result"

    def _describe_place(self, text: str) -> str:
        source = self._ledger.find_foreign(text)
        return "" if source is None else f"; it appears in {_describe(source)}"


def _is_said_number(text: str, ledger: FlowLedger) -> bool:
    try:
        return len(text) < _MAX_SHOWN and ledger.said.has_number(float(text))
    except ValueError:
        return False


def _describe(source: Source) -> str:
    return to_printable(str(source), _MAX_SHOWN)


def _quote(text: str) -> str:
    return f"'{to_printable(to_line(text), _MAX_SHOWN)}'"
