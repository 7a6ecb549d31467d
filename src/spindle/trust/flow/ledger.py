"""The ledger of one session: what the user said, what tools returned, and where a value of a call comes from."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from spindle.json_types import JsonObject, JsonValue
from spindle.trust.flow.records import find_records
from spindle.trust.flow.roles import Leaf, Produces, ToolFlow
from spindle.trust.flow.said import Said
from spindle.trust.flow.text_index import TextIndex
from spindle.trust.labels import UNKNOWN, Label, join

SourceKind: TypeAlias = Literal["user", "result", "argument", "earlier"]
MAX_USER_CHARS: Final = 2_000_000
MAX_RESULT_CHARS: Final = 1_000_000
"""Of one result; the rest is read from its artifact when a call needs it."""
MAX_KEPT_CHARS: Final = 8_000_000
"""Of all results of one kind; the oldest are forgotten first."""
MAX_ARGUMENT_CHARS: Final = 1_000_000
_MIN_CARRYING_DIGITS: Final = 4
_THIRD_PARTY: Final = frozenset[Label]({"third-party-public", "third-party-private"})


@dataclass(frozen=True, eq=False, slots=True)
class Source:
    """Where a text came from."""

    order: int
    """Its place in the session."""
    kind: SourceKind
    label: Label
    call_id: str = ""
    tool: str = ""
    is_partial: bool = False
    """Whether only its beginning is in the ledger."""

    def __str__(self) -> str:
        if self.kind == "user":
            return "the user's words"
        if self.kind == "earlier":
            return "an earlier part of the session"
        return f"result {self.call_id} of {self.tool}"


@dataclass(eq=False, slots=True)
class _Records:
    """What is known about the records of one kind."""

    made: set[str] = field(default_factory=set[str])
    names: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """The names of each id that a user might say."""
    ids: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """The ids of each name."""


_NO_RECORDS: Final = _Records()


class FlowLedger:
    """What the user said in a session, what tools returned, and the label of each; one for each session."""

    def __init__(self) -> None:
        self.user = TextIndex[Source]()
        self.trusted = TextIndex[Source]()
        self.other = TextIndex[Source]()
        """Results that are not trusted."""
        self.passed = TextIndex[Source]()
        """Arguments of calls that ran with values that are not trusted; what comes back may be an echo of them."""
        self.said = Said()
        self.label: Label = "trusted"
        """The least trusted label of what came in."""
        self.tainted_by: Source | None = None
        """The first third-party content of the session."""
        self.has_lost_private = False
        """Whether private content is no longer in memory."""
        self.user_texts: list[str] = []
        self._labels: dict[str, Label] = {}
        self._records: dict[str, _Records] = {}
        self._order = 0
        self._recorded_texts = 0
        self.told: set[object] = set()
        """Keys of what turns and frameworks have told it, so that none is added twice."""

    @property
    def is_tainted(self) -> bool:
        """Whether third-party content has entered the session."""
        return self.tainted_by is not None

    def taint(self, label: Label = UNKNOWN) -> None:
        """Remember that third-party content entered the session, of which nothing else is known."""
        self._receive(self._build_source("earlier", label))

    def receive(self, label: Label, call_id: str, tool: str) -> None:
        """Remember the label of a call, whose text is known already."""
        self._labels[call_id] = join(self._labels.get(call_id, label), label)
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
        left = MAX_USER_CHARS - self.user.chars
        if left <= 0 or not text.strip():
            return
        kept = text[:left]
        self.user_texts.append(kept)
        for block in self.user.add_in_steps(kept, self._build_source("user", "trusted")):
            self.said.add(block)
            yield

    def add_result(
        self,
        tool: ToolFlow,
        text: str,
        *,
        call_id: str = "",
        args: Mapping[str, JsonValue] | None = None,
        structured: JsonValue = None,
        label: Label | None = None,
    ) -> Label:
        """Add the whole result of a call and return its label.

        The label joins that of the tool with those of the arguments, so that a trusted tool which returns what it was
        given does not make it trusted. `label` is that of the result's own content, such as media.
        """
        found = self.get_result_label(tool, args or {}, label)
        for _ in self.add_result_in_steps(tool, text, found, call_id=call_id, args=args, structured=structured):
            pass
        return found

    def get_result_label(self, tool: ToolFlow, args: Mapping[str, JsonValue], label: Label | None = None) -> Label:
        """Return the label of a result of a tool with these arguments."""
        labels: list[Label] = [tool.output] if label is None else [tool.output, label]
        leaves = tool.get_leaves(args)
        if tool.is_reader:
            texts = [leaf.value for leaf in leaves if isinstance(leaf.value, str)]
            named = [label for label in map(self._labels.get, texts) if label is not None]
            return join(*labels, *named) if named else join(*labels, self.label)
        if self.label == "trusted" and not self.passed:
            return join(*labels)
        labels += [self.get_label(leaf) for leaf in leaves if _carries(leaf)]
        return join(*labels)

    def add_result_in_steps(
        self,
        tool: ToolFlow,
        text: str,
        label: Label,
        *,
        call_id: str = "",
        args: Mapping[str, JsonValue] | None = None,
        structured: JsonValue = None,
    ) -> Iterator[None]:
        """Add the whole result of a call, whose label is known, with pauses in a long text."""
        self._note_arguments(tool, call_id, args or {})
        kept = text[:MAX_RESULT_CHARS]
        source = self._build_source("result", label, call_id, tool.name, is_partial=len(kept) < len(text))
        self._labels[call_id] = join(self._labels.get(call_id, label), label)
        if tool.produces is not None and structured is not None:
            self._note_records(tool, tool.produces, structured)
        self._receive(source)
        index = self.trusted if label == "trusted" else self.other
        for _ in index.add_in_steps(kept, source):
            yield
        lost = index.forget_oldest(MAX_KEPT_CHARS) if index.chars > MAX_KEPT_CHARS else set[Source]()
        if source.is_partial:
            lost.add(source)
        self.has_lost_private |= any(each.label == "third-party-private" for each in lost)

    def get_input_label(self, tool: ToolFlow, args: Mapping[str, JsonValue]) -> Label:
        """Return the label that the arguments of a call leave its result."""
        return self.get_result_label(replace(tool, output="trusted"), args)

    def get_label(self, leaf: Leaf) -> Label:
        """Return the label of a value in the arguments of a call."""
        text = to_text(leaf.value)
        if self.find_vouched(text) is not None:
            return "trusted"
        labels: list[Label] = [source.label for source in self.other.search(text)]
        if labels and self.passed.find(text) is None:
            return join(*labels)
        return self.label

    def find_vouched(self, text: str) -> Source | None:
        """Return where a value stands in the user's words or in a trusted result, or `None`.

        A trusted result does not vouch for what a call with foreign values had put in before: it may be an echo.
        """
        said = self.user.find(text)
        if said is not None:
            return said
        for source in self.trusted.search(text):
            if not any(passed.order <= source.order for passed in self.passed.search(text)):
                return source
        return None

    def find_foreign(self, text: str) -> Source | None:
        """Return where a value stands in a result that is not trusted, the most foreign one first, or `None`."""
        found = sorted(self.other.search(text), key=lambda source: (source.label not in _THIRD_PARTY, source.order))
        return found[0] if found else None

    def has_made(self, kind: str, id: str) -> bool:
        """Return whether a call of this session has made the record of this kind with this id."""
        return kind in self._records and id in self._records[kind].made

    def find_named(self, kind: str, id: str) -> str | None:
        """Return the name by which the user named the record with this id, if no other record has that name."""
        records = self._records.get(kind, _NO_RECORDS)
        for name in records.names.get(id, ()):
            if len(records.ids[name.casefold()]) == 1 and self.user.find(name, exact=name.isalpha()) is not None:
                return name
        return None

    def absorb(self, other: "FlowLedger") -> None:
        """Add what another ledger of the same session knew: the user's words, and its taint."""
        for text in other.user_texts:
            if text not in self.user_texts:
                self.add_user_text(text)
        if other.is_tainted and not self.is_tainted:
            self.taint()

    def take_unrecorded_texts(self) -> list[str]:
        """Return the user's texts since the last time, for the journal."""
        texts, self._recorded_texts = self.user_texts[self._recorded_texts :], len(self.user_texts)
        return texts

    def save(self) -> JsonObject:
        """Return what must outlive this process as JSON; texts of results are left out, which makes it ask more."""
        return {
            "label": self.label,
            "tainted": self.is_tainted,
            "user": self.user_texts,
            "labels": dict(self._labels),
            "made": {kind: sorted(records.made) for kind, records in self._records.items() if records.made},
        }

    def restore(self, saved: Mapping[str, JsonValue]) -> None:
        """Add what another ledger of this session has saved."""
        for text in saved.get("user", ()):
            if text not in self.user_texts:
                self.add_user_text(text)
        given: Mapping[str, Label] = saved.get("labels", {})
        for call_id, label in given.items():
            self._labels[call_id] = join(self._labels.get(call_id, label), label)
        for kind, ids in saved.get("made", {}).items():
            self._records.setdefault(kind, _Records()).made.update(ids)
        self.label = join(self.label, saved["label"])
        if saved.get("tainted", True) and not self.is_tainted:
            self.taint()

    def _note_arguments(self, tool: ToolFlow, call_id: str, args: Mapping[str, JsonValue]) -> None:
        if not self.is_tainted or self.passed.chars > MAX_ARGUMENT_CHARS:
            return
        for leaf in tool.get_leaves(args):
            if isinstance(leaf.value, str) and self.find_vouched(leaf.value) is None:
                source = self._build_source("argument", self.label, call_id, tool.name)
                self.passed.add(leaf.value[:MAX_ARGUMENT_CHARS], source)

    def _note_records(self, tool: ToolFlow, produces: Produces, structured: JsonValue) -> None:
        records = self._records.setdefault(produces.kind, _Records())
        for record in find_records(structured, produces):
            if not tool.read_only:
                records.made.add(record.id)
            for name in record.names:
                records.names.setdefault(record.id, set()).add(name)
                records.ids.setdefault(name.casefold(), set()).add(record.id)

    def _receive(self, source: Source) -> None:
        self.label = join(self.label, source.label)
        if self.tainted_by is None and source.label in _THIRD_PARTY:
            self.tainted_by = source

    def _build_source(
        self, kind: SourceKind, label: Label, call_id: str = "", tool: str = "", *, is_partial: bool = False
    ) -> Source:
        self._order += 1
        return Source(self._order, kind, label, call_id, tool, is_partial)


def has_words(text: str, indexes: "Collection[TextIndex[Source]]") -> bool:
    """Return whether every word of a text is in one of the indexes."""
    words = set(text.casefold().split())
    return all(
        any(index.find(word.strip(_EDGES)) is not None for index in indexes) for word in words if word.strip(_EDGES)
    )


_EDGES: Final = ".,;:!?()[]{}<>\"'*-\u2013\u2014\u2022#"


def to_text(value: str | float) -> str:
    """Return a value as it would stand in a text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return value if isinstance(value, str) else str(value)


def _carries(leaf: Leaf) -> bool:
    """Return whether a value can carry something on: a text, or a number that may be an account or a code."""
    if isinstance(leaf.value, str):
        return True
    return not isinstance(leaf.value, bool) and len(to_text(leaf.value)) >= _MIN_CARRYING_DIGITS
