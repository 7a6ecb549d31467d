"""The rules of a flow policy: for each role, where a value must come from, and the sentence if it does not."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from spindle.text import to_line, to_printable
from spindle.trust.flow.disguises import reveal
from spindle.trust.flow.identifiers import find_amounts, find_identifiers, find_phrases
from spindle.trust.flow.ledger import FlowLedger
from spindle.trust.flow.naming import has_inflected, is_named, is_ordinary
from spindle.trust.flow.references import PHRASE_WORDS
from spindle.trust.flow.roles import MAX_LEAVES, Content, Free, Leaf, Ref, Role, Setting, Target, ToolFlow, to_text
from spindle.trust.flow.said import Moment
from spindle.trust.flow.sources import Source
from spindle.trust.flow.text_index import to_key
from spindle.trust.flow.tokens import MAX_VALUE_CHARS, WORD, fold

_MAX_SHOWN: Final = 80
_MAX_REASONS: Final = 8
_MAX_CONTENT_CHARS: Final = 50_000
_MIN_TARGET_CHARS: Final = 2
_DIGIT: Final = re.compile(r"\d")
_EDGES: Final = ".,;:!?()[]{}<>\"'*-\u2013\u2014\u2022#"
_SIGILS: Final = frozenset("@#")
_NAME_WORD: Final = re.compile(r"[^\W\d_]+")
_MIN_STEM_CHARS: Final = 4
_PLAIN_NUMBER: Final = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?")


class Vouched:
    """The values that the operator vouches for, by role or kind."""

    def __init__(self, directory: Mapping[str, Collection[str]]) -> None:
        self._values = {key: frozenset(map(to_key, values)) for key, values in directory.items()}

    def has(self, key: str, value: str) -> bool:
        """Return whether the directory has a value as a whole under a role or a kind."""
        values = self._values.get(key)
        return values is not None and len(value) <= _MAX_CONTENT_CHARS and to_key(value) in values


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
        self._audience = [*self._targets, *(to_text(leaf.value) for leaf, role in self._roles if isinstance(role, Ref))]
        """Who may read what the call sends: those it goes to, and those who see the record."""

    def find_reasons(self) -> list[str]:
        """Return why a person must approve the call; nothing if it may run."""
        tool = self._tool
        if tool.destructive:
            return [f"{_quote(tool.name)} is destructive, and the session has read {self._describe_taint()}"]
        if len(self._roles) > MAX_LEAVES:
            return [f"the call has more than {MAX_LEAVES} values, which are too many to be judged"]
        judged = [each for each in self._roles if not isinstance(each[1], Free) and not self._is_default(each[0])]
        if not judged:
            return [f"nothing in this call comes from the user, and the session has read {self._describe_taint()}"]
        reasons: dict[str, None] = {}
        is_target_foreign = False
        for leaf, role in sorted(judged, key=_get_rank):
            # A target that is not vouched for is reason enough; that the body goes there would say nothing new.
            if len(reasons) >= _MAX_REASONS or (is_target_foreign and isinstance(role, Content)):
                break
            reasons.update(dict.fromkeys(self._judge_leaf(leaf, role)))
            is_target_foreign |= isinstance(role, Target) and bool(reasons)
        if not reasons and not self._is_meant(judged):
            reasons[
                f"the user said nothing about {_quote(tool.name)}, only words that are also values of this call"
            ] = None
        return list(reasons)[:_MAX_REASONS]

    def _is_meant(self, judged: Sequence[tuple[Leaf, Role]]) -> bool:
        """Return whether the user can have meant this call.

        A call that names only a record, or a word such as `off`, must have the user's words for what it does: else a
        door that was to be locked can be unlocked.
        """
        if self._tool.read_only or not all(self._is_weak(leaf, role) for leaf, role in judged):
            return True
        if len({type(role) for _, role in judged}) > 1:  # a record, and what becomes of it
            return True
        words = [word for word in _NAME_WORD.findall(fold(self._tool.name)) if len(word) >= _MIN_STEM_CHARS]
        return not words or any(has_inflected(word, self._ledger.user) for word in words)

    def _is_weak(self, leaf: Leaf, role: Role) -> bool:
        """Return whether a value can be in the user's words by chance: a record, a switch, or one word."""
        if isinstance(role, Ref):
            text = to_text(leaf.value)
            return not self._vouched.has(role.kind, text) and not self._ledger.has_made(role.kind, text)
        if not isinstance(role, Setting) or not isinstance(leaf.value, (str, bool)):
            return False
        return isinstance(leaf.value, bool) or leaf.value.strip().isalpha()

    def _judge_leaf(self, leaf: Leaf, role: Role) -> Iterator[str]:
        if isinstance(role, Target):
            return self._judge_target(leaf)
        if isinstance(role, Ref):
            return self._judge_ref(leaf, role)
        return self._judge_setting(leaf) if isinstance(role, Setting) else self._judge_content(leaf)

    def _judge_target(self, leaf: Leaf) -> Iterator[str]:
        text = to_text(leaf.value)
        if self._vouched.has("target", text):
            return
        if len(text.strip()) < _MIN_TARGET_CHARS or not self._is_vouched(text):
            yield f"{leaf.name} {_quote(text)} {self._describe_origin(text)}"
        elif is_ordinary(text) and not self._is_marked(text, leaf.name):
            yield f"{leaf.name} {_quote(text)} is an ordinary word or a small number, which does not say who is meant"

    def _is_marked(self, text: str, name: str) -> bool:
        """Return whether an ordinary word was marked as a name, such as `the 'summary' channel`."""
        nouns = [fold(word) for word in re.split(r"[\W_]+", name) if word]
        ledger = self._ledger
        return is_named(ledger.user, text, nouns) or (not ledger.echoes and is_named(ledger.trusted, text, nouns))

    def _judge_ref(self, leaf: Leaf, role: Ref) -> Iterator[str]:
        text, ledger = to_text(leaf.value), self._ledger
        if self._vouched.has(role.kind, text) or ledger.has_made(role.kind, text):
            return
        if not is_named(ledger.user, text, [fold(role.kind)]) and ledger.find_named(role.kind, text) is None:
            yield (
                f"{leaf.name} {_quote(text)}: this {to_printable(role.kind, 40)} was neither made in this session nor "
                f"named by the user"
            )

    def _judge_setting(self, leaf: Leaf) -> Iterator[str]:
        text = to_text(leaf.value)
        if not self._vouched.has("setting", text) and not self._is_said(leaf, text):
            yield f"{leaf.name} {_quote(text)} was not said by the user{self._describe_place(text)}"

    def _is_said(self, leaf: Leaf, text: str) -> bool:
        value, ledger = leaf.value, self._ledger
        if isinstance(value, bool):
            return value and ledger.said.has_flag(leaf.name, ledger.user)
        if not isinstance(value, str):
            return ledger.said.has_number(value)
        if _PLAIN_NUMBER.fullmatch(text):
            return ledger.said.has_number(text)
        if ledger.is_said(text) or (text.isalpha() and has_inflected(fold(text), ledger.user)):
            return True
        moment = Moment.read(value)
        return moment is not None and ledger.said.has_moment(moment, self._collect_moments())

    def _collect_moments(self) -> tuple[Moment, ...]:
        texts = [leaf.value for leaf, role in self._roles if isinstance(role, Setting) and isinstance(leaf.value, str)]
        return tuple(filter(None, map(Moment.read, texts)))

    def _judge_content(self, leaf: Leaf) -> Iterator[str]:
        text, ledger = to_text(leaf.value), self._ledger
        if len(text) > _MAX_CONTENT_CHARS:
            yield f"{leaf.name} has {len(text)} characters, which are too many to be judged"
            return
        if self._vouched.has("content", text):
            return
        if len(text) <= MAX_VALUE_CHARS and ledger.is_said(text):
            return
        # Without an audience only what leads somewhere matters.
        found = find_identifiers(text, with_numbers=bool(self._audience))
        foreign = [each for each in found if not self._is_vouched(each)]
        for each in foreign[:_MAX_REASONS]:
            yield f"{leaf.name} contains {_quote(each)}, which {self._describe_origin(each)}"
        if foreign or not self._audience:
            return
        # That a value is trusted says who wrote it, not who may read it.
        taken = next((each for each in found if not self._is_known_to_audience(each)), None)
        if taken is not None:
            yield f"{leaf.name} contains {_quote(taken)}, which the user did not say and a tool returned"
            return
        if self._has_trusted_words(text):
            return
        unnamed = [each for each in self._targets if not self._is_named(each)]
        if unnamed:
            yield f"{leaf.name} goes to {_quote(unnamed[0])}, whom the user did not name, in words of others"
            return
        yield from self._find_private(leaf, reveal(text))

    def _has_trusted_words(self, text: str) -> bool:
        """Return whether every word of a text is one of the user or of a trusted result; numbers count as a whole."""
        ledger = self._ledger
        folded = fold(text)
        if _DIGIT.search(folded) is None:
            return all(map(ledger.has_word, set(WORD.findall(folded))))
        for word in set(folded.split()):
            if _DIGIT.search(word):
                if ledger.find_vouched(word.strip(_EDGES)) is None:
                    return False
            elif not all(map(ledger.has_word, WORD.findall(word))):
                return False
        return True

    def _is_vouched(self, value: str) -> bool:
        """Return whether the operator, the user or a trusted result vouches for an address, an account or a name."""
        ledger = self._ledger
        if self._vouched.has("target", value) or ledger.find_vouched(value) is not None:
            return True
        # People say `bob` for `@bob`, and write phone numbers in groups.
        is_handle = value[:1] in _SIGILS and ledger.find_vouched(value[1:]) is not None
        return is_handle or ledger.said.has_account(value)

    def _is_known_to_audience(self, value: str) -> bool:
        """Return whether the user named an identifier, or the operator vouches for it."""
        return self._vouched.has("target", value) or self._vouched.has("content", value) or self._is_named(value)

    def _is_named(self, value: str) -> bool:
        """Return whether the user said a target or an identifier, or looked it up."""
        ledger = self._ledger
        if ledger.said.has_account(value) or ledger.is_said(value) or ledger.has_looked_up(value):
            return True
        return value[:1] in _SIGILS and ledger.is_said(value[1:])

    def _find_private(self, leaf: Leaf, text: str) -> Iterator[str]:
        """Yield why a text without foreign identifiers carries private values to one who may not read them."""
        ledger = self._ledger
        if not ledger.has_private and not self._readers:
            return
        seen: set[str] = set()
        for value, source in self._find_sources(text):
            if source.tool in seen or ledger.find_vouched(value) is not None:
                continue
            outsider = self._find_outsider(source)
            if outsider is not None:
                seen.add(source.tool)
                yield (
                    f"{leaf.name} carries {_quote(value)} of {_describe(source)}, which is private, to "
                    f"{_quote(outsider)}, who is not among its readers"
                )
        if not seen and (ledger.has_lost_private or ledger.has_references):
            yield from self._find_lost(leaf, text)

    def _find_sources(self, text: str) -> Iterator[tuple[str, Source]]:
        other = self._ledger.other
        for amount in find_amounts(text):
            for source in other.search(amount):
                yield amount, source
        yield from other.search_phrases(text, PHRASE_WORDS)

    def _find_lost(self, leaf: Leaf, text: str) -> Iterator[str]:
        ledger = self._ledger
        for value in (*find_amounts(text), *find_phrases(text, PHRASE_WORDS)):
            if (ledger.has_lost_private or ledger.may_be_in_references(value)) and ledger.find_vouched(value) is None:
                yield f"{leaf.name} carries {_quote(value)}, and private content of this session was dropped"
                return

    def _find_outsider(self, source: Source) -> str | None:
        """Return a target of the call who may not read a source; `None` if all may, or if it is not private."""
        if source.label != "third-party-private" and source.tool not in self._readers:
            return None
        allowed = self._readers.get(source.tool, ())
        if "*" in allowed:
            return None
        # Those who see a record may read what was read of it.
        keys = {to_key(reader) for reader in (*allowed, *source.about)}
        return next((each for each in self._audience if to_key(each) not in keys), None)

    def _is_default(self, leaf: Leaf) -> bool:
        name = leaf.path[0]
        if len(leaf.path) != 1 or name not in self._tool.defaults:
            return False
        default = self._tool.defaults[name]
        return isinstance(default, bool) is isinstance(leaf.value, bool) and default == leaf.value

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


def _get_rank(judged: tuple[Leaf, Role]) -> int:
    return _ROLES.index(type(judged[1]))


_ROLES: Final = (Target, Ref, Setting, Content, Free)


def _describe(source: Source) -> str:
    return to_printable(str(source), _MAX_SHOWN)


def _quote(text: str) -> str:
    return f"'{to_printable(to_line(text[: 4 * _MAX_SHOWN]), _MAX_SHOWN)}'"
