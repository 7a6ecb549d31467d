"""The ledger of one session: what the user said, what tools returned, and where a value of a call comes from."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.trust.flow.echoes import Echoes
from spindle.trust.flow.records import RecordBook, find_records
from spindle.trust.flow.references import CallToRecall, LargeResults, Reference
from spindle.trust.flow.roles import Leaf, Produces, ToolFlow, to_text
from spindle.trust.flow.said import Said
from spindle.trust.flow.sources import Source, SourceKind
from spindle.trust.flow.text_index import Needle, TextIndex
from spindle.trust.flow.tokens import MAX_VALUE_CHARS
from spindle.trust.flow.whole_text import build_whole_text
from spindle.trust.labels import UNKNOWN, Label, is_label, join

MAX_USER_CHARS: Final = 2_000_000
"""Of all words of the user; the oldest are forgotten first."""
MAX_USER_TEXT_CHARS: Final = 500_000
"""Of one text of the user."""
MAX_RESULT_CHARS: Final = 1_000_000
"""Of one result; the rest is read from its reference when a call needs it."""
MAX_KEPT_CHARS: Final = 8_000_000
"""Of all results of one kind; the oldest are forgotten first."""
MAX_CALLS: Final = 20_000
"""How many calls are known by id; the result of a reader of another one is as foreign as the session."""
_MAX_KINDS: Final = 200
_MIN_CARRYING_DIGITS: Final = 4
_MAX_ABOUT: Final = 8
_THIRD_PARTY: Final = frozenset[Label]({"third-party-public", "third-party-private"})


class FlowLedger:
    """What the user said in a session, what tools returned, and the label of each; one for each session."""

    def __init__(self) -> None:
        self.user = TextIndex[Source]()
        self.trusted = TextIndex[Source]()
        self.other = TextIndex[Source](is_found_in_doubt=True)
        """Results that are not trusted."""
        self.echoes = Echoes()
        """Values that calls have passed on without being trusted."""
        self.references = LargeResults[Source]()
        """Results that are too large for the ledger."""
        self.said = Said()
        self.label: Label = "trusted"
        """The least trusted label of what came in."""
        self.tainted_by: Source | None = None
        """The first third-party content of the session."""
        self.has_lost_private = False
        """Whether private content was dropped from memory."""
        self.user_texts: list[str] = []
        self._labels: dict[str, Label] = {}
        self._books: dict[str, RecordBook] = {}
        self._order = self._recorded_texts = 0
        self._has_private = False
        self.on_taint: Callable[[], None] | None = None
        self.added: set[object] = set()  # keys of what turns and frameworks have added, so that none is added twice

    @property
    def is_tainted(self) -> bool:
        """Whether third-party content has entered the session."""
        return self.tainted_by is not None

    @property
    def has_private(self) -> bool:
        """Whether private content has entered the session."""
        return self._has_private or self.has_lost_private

    @property
    def chars(self) -> int:
        """The size of the texts in memory."""
        return self.user.chars + self.trusted.chars + self.other.chars

    @property
    def has_references(self) -> bool:
        """Whether values should be looked up by `recall` before calls are judged."""
        return bool(self.references)

    def taint(self, label: Label = UNKNOWN) -> None:
        """Remember that third-party content entered the session, of which nothing else is known."""
        self._receive(self._build_source("earlier", label))
        self.has_lost_private |= label == "third-party-private"

    def lose_past(self) -> None:
        """Remember that the ledger of this session is gone: nothing is known of what came in, nor of what went out."""
        self.has_lost_private = True
        self.echoes.restore(None)
        if not self.is_tainted:
            self.taint()

    def receive(self, label: Label, call_id: str, tool: str) -> None:
        """Remember the label of a call, whose text is known already."""
        self._note_label(call_id, label)
        self._receive(self._build_source("result", label, call_id, tool))

    def knows_call(self, call_id: str) -> bool:
        """Return whether the result of a call was added."""
        return call_id in self._labels

    def add_user_text(self, text: str) -> None:
        """Add words of the user; a value in them counts as chosen by the user."""
        for _ in self.add_user_text_in_steps(text):
            pass

    def add_user_text_in_steps(self, text: str) -> Iterator[None]:
        """Add words of the user, with pauses in a long text."""
        kept = text[:MAX_USER_TEXT_CHARS]
        if not kept.strip():
            return
        self.user_texts.append(kept)
        for block in self.user.add_in_steps(kept, self._build_source("user", "trusted")):
            self.said.add(block)
            yield
        self.user.forget_oldest(MAX_USER_CHARS)
        while sum(map(len, self.user_texts)) > MAX_USER_CHARS:
            self.user_texts.pop(0)
            self._recorded_texts = max(0, self._recorded_texts - 1)

    def start_call(self, tool: ToolFlow, args: Mapping[str, JsonValue]) -> None:
        """Remember the arguments of a call that begins, so that what another call reads back meanwhile is an echo."""
        # What a tool is given that changes nothing here cannot come back from another one.
        if self.label == "trusted" or (tool.read_only and not tool.reaches_network):
            return
        order = self._build_source("argument", self.label).order
        for leaf in tool.get_leaves(args):
            if _carries(leaf) and self.find_vouched(to_text(leaf.value)) is None:
                self.echoes.add(to_text(leaf.value), order)

    def add_result(
        self,
        tool: ToolFlow,
        text: str,
        *,
        call_id: str = "",
        args: Mapping[str, JsonValue] | None = None,
        structured: JsonValue = None,
        label: Label | None = None,
        reference: Reference | None = None,
    ) -> Label:
        """Add the whole result of a call and return its label.

        The label joins that of the tool with those of the arguments, so that a trusted tool which returns what it was
        given does not make it trusted. `label` is that of the result's own content, such as media. `reference` searches
        a result that is too large for the ledger.
        """
        found = self.get_result_label(tool, args or {}, label)
        for _ in self.add_result_in_steps(
            tool, text, found, call_id=call_id, args=args, structured=structured, reference=reference
        ):
            pass
        return found

    def get_result_label(self, tool: ToolFlow, args: Mapping[str, JsonValue], label: Label | None = None) -> Label:
        """Return the label of a result of a tool with these arguments."""
        own = tool.output if label is None else join(tool.output, label)
        return join(own, self.get_input_label(tool, args))

    def get_input_label(self, tool: ToolFlow, args: Mapping[str, JsonValue]) -> Label:
        """Return the label that the arguments of a call leave its result."""
        if self.label == "trusted":
            return "trusted"
        if tool.is_reader:
            return self._get_read_label(args)
        labels: list[Label] = [self.get_label(leaf) for leaf in tool.get_leaves(args) if _carries(leaf)]
        return join("trusted", *labels)

    def _get_read_label(self, args: Mapping[str, JsonValue]) -> Label:
        """Return the label of the call whose result a reader reads, or of the session if that is not known."""
        address = args.get("call_id")
        known = self._labels.get(address) if isinstance(address, str) else None
        if known is None and isinstance(address, str):  # one of several artifacts: `id#0`
            known = self._labels.get(address.rpartition("#")[0])
        return known or self.label

    def add_result_in_steps(
        self,
        tool: ToolFlow,
        text: str,
        label: Label,
        *,
        call_id: str = "",
        args: Mapping[str, JsonValue] | None = None,
        structured: JsonValue = None,
        reference: Reference | None = None,
    ) -> Iterator[None]:
        """Add the whole result of a call, whose label is known, with pauses in a long text."""
        self.start_call(tool, args or {})
        text = build_whole_text(text, structured, MAX_RESULT_CHARS)
        kept = text[:MAX_RESULT_CHARS]
        is_computed = label == "trusted" and self.label != "trusted" and self._has_unsaid_number(tool, args or {})
        source = self._build_source(
            "result",
            label,
            call_id,
            tool.name,
            is_partial=len(kept) < len(text),
            is_computed=is_computed,
            about=tuple(islice(_find_short_texts(tool.get_leaves(args or {})), _MAX_ABOUT)),
        )
        self._note_label(call_id, label)
        if tool.produces is not None and structured is not None:
            self._note_records(tool, tool.produces, structured)
        self._receive(source)
        index = self.trusted if label == "trusted" else self.other
        for _ in index.add_in_steps(kept, source):
            yield
        lost = index.forget_oldest(MAX_KEPT_CHARS)
        if reference is not None and source.is_partial:
            lost |= self.references.add(source, reference)
        elif source.is_partial:
            lost.add(source)
        self.has_lost_private |= any(each.label == "third-party-private" for each in lost)

    async def recall(self, calls: Iterable[CallToRecall]) -> None:
        """Look up the values of calls in results that are too large for the ledger, before the calls are judged.

        The lines with a value are added to the ledger. Time and number are bounded; a value that was not looked up
        counts as not vouched for, and as private if such a result is.
        """
        for source, line in await self.references.find_lines(calls):
            (self.trusted if source.label == "trusted" else self.other).add(line, source)

    def may_be_in_references(self, value: str) -> bool:
        """Return whether a value may be in a private result that is too large, and was not looked up there."""
        return not self.references.has_recalled(value) and any(
            source.label == "third-party-private" for source in self.references.sources
        )

    def get_label(self, leaf: Leaf) -> Label:
        """Return the label of a value in the arguments of a call."""
        text = to_text(leaf.value)
        if self.find_vouched(text) is not None:
            return "trusted"
        labels: list[Label] = [source.label for source in self.other.search(text)]
        # The same value may also have been in a text that was dropped, or have been made from another one.
        is_known = labels and not self.has_lost_private and not self.echoes.has(text, self._order)
        return join(*labels) if is_known else self.label

    def find_vouched(self, text: str) -> Source | None:
        """Return where a value stands in the user's words or in a trusted result, or `None`.

        A trusted result does not vouch for what a call with foreign values had put in before: it may be an echo.
        """
        needle = Needle.build(text)
        if needle is None:
            return None
        said = self.user.find(needle)
        return said if said is not None else next(self._search_trusted(text, needle), None)

    def has_looked_up(self, text: str) -> bool:
        """Return whether a value stands in a trusted result about something that the user said, such as a contact."""
        needle = Needle.build(text)
        sources = () if needle is None else self._search_trusted(text, needle)
        return any(source.about and all(map(self.is_said, source.about)) for source in sources)

    def is_said(self, text: str) -> bool:
        """Return whether a value stands in the user's words."""
        return self.user.find(text) is not None

    def _search_trusted(self, text: str, needle: Needle) -> Iterator[Source]:
        for source in self.trusted.search(needle) if self.trusted else ():
            if not self.echoes.has(text, source.order) and not (source.is_computed and _is_number(text)):
                yield source

    def has_word(self, word: str) -> bool:
        """Return whether a word, given in small letters, is one of the user or of a trusted result."""
        return self.user.has_word(word) or (self.trusted.has_word(word) and not self.echoes.has_word(word))

    def find_foreign(self, text: str) -> Source | None:
        """Return where a value stands in a result that is not trusted, the most foreign one first, or `None`."""
        found = sorted(self.other.search(text), key=lambda source: (source.label not in _THIRD_PARTY, source.order))
        return found[0] if found else None

    def has_made(self, kind: str, id: str) -> bool:
        """Return whether a call of this session has made the record of this kind with this id."""
        return kind in self._books and self._books[kind].has_made(id)

    def find_named(self, kind: str, id: str) -> str | None:
        """Return the name by which the user named the record with this id, if no other record has that name."""
        book = self._books.get(kind)
        return None if book is None else book.find_named(id, kind, self.user)

    def absorb(self, other: "FlowLedger") -> None:
        """Add what another ledger of the same session knew: the user's words, and its taint."""
        for text in other.user_texts:
            if text not in self.user_texts:
                self.add_user_text(text)
        if other.is_tainted and not self.is_tainted:
            self.taint(other.label)
        self.has_lost_private |= other.has_private
        if other.echoes:
            self.echoes.restore(other.echoes.save())
        self.label = join(self.label, other.label)

    def take_unrecorded_texts(self) -> list[str]:
        """Return the user's texts since the last time, for the journal."""
        texts, self._recorded_texts = self.user_texts[self._recorded_texts :], len(self.user_texts)
        return texts

    def save(self) -> JsonObject:
        """Return what must outlive this process as JSON; texts of results are left out, which makes it ask more."""
        return {
            "label": self.label,
            "tainted": self.is_tainted,
            "private": self.has_private,
            "user": list(self.user_texts),
            "labels": dict(self._labels),
            "echoes": self.echoes.save(),
            "records": {kind: book.save() for kind, book in self._books.items()},
        }

    def restore(self, saved: Mapping[str, JsonValue]) -> None:
        """Add what another ledger of this session has saved; what cannot be read makes this one ask more."""
        texts, labels, records = saved.get("user"), saved.get("labels"), saved.get("records")
        for text in texts if is_array(texts) else ():
            if isinstance(text, str) and text not in self.user_texts:
                self.add_user_text(text)
        for call_id, label in labels.items() if is_object(labels) else ():
            self._note_label(str(call_id), label if is_label(label) else UNKNOWN)
        for kind, book in records.items() if is_object(records) else ():
            self._get_book(str(kind)).restore(book)
        self.echoes.restore(saved.get("echoes"))
        self.has_lost_private |= saved.get("private") is not False
        label = saved.get("label")
        self.label = join(self.label, label if is_label(label) else UNKNOWN)
        if saved.get("tainted") is not False and not self.is_tainted:
            self._receive(self._build_source("earlier", join(self.label, "third-party-public")))

    def _note_label(self, call_id: str, label: Label) -> None:
        if not call_id:
            return
        self._labels[call_id] = join(self._labels.pop(call_id, label), label)
        while len(self._labels) > MAX_CALLS:
            del self._labels[next(iter(self._labels))]

    def _note_records(self, tool: ToolFlow, produces: Produces, structured: JsonValue) -> None:
        found = find_records(structured, produces)
        self._get_book(produces.kind).add(found, is_made=not tool.read_only)

    def _get_book(self, kind: str) -> RecordBook:
        if kind not in self._books and len(self._books) >= _MAX_KINDS:
            return RecordBook()  # kept nowhere, so a call about such a record is asked about
        return self._books.setdefault(kind, RecordBook())

    def _receive(self, source: Source) -> None:
        self.label = join(self.label, source.label)
        self._has_private |= source.label == "third-party-private"
        if self.tainted_by is None and source.label in _THIRD_PARTY:
            self.tainted_by = source
            if self.on_taint is not None:
                self.on_taint()

    def _has_unsaid_number(self, tool: ToolFlow, args: Mapping[str, JsonValue]) -> bool:
        numbers = (leaf.value for leaf in tool.get_leaves(args) if not isinstance(leaf.value, (str, bool)))
        return any(not self.said.has_number(number) for number in numbers)

    def _build_source(
        self,
        kind: SourceKind,
        label: Label,
        call_id: str = "",
        tool: str = "",
        *,
        is_partial: bool = False,
        is_computed: bool = False,
        about: tuple[str, ...] = (),
    ) -> Source:
        self._order += 1
        return Source(self._order, kind, label, call_id, tool, is_partial, is_computed, about)


def _carries(leaf: Leaf) -> bool:
    """Return whether a value can carry something on: a text, or a number that may be an account or a code."""
    if isinstance(leaf.value, str):
        return True
    return not isinstance(leaf.value, bool) and len(to_text(leaf.value)) >= _MIN_CARRYING_DIGITS


def _find_short_texts(leaves: Iterable[Leaf]) -> Iterator[str]:
    for leaf in leaves:
        text = to_text(leaf.value)
        if len(text) <= MAX_VALUE_CHARS:
            yield text


def _is_number(text: str) -> bool:
    return not any(map(str.isalpha, text))
