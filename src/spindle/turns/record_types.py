"""The record types of a turn besides tool calls: messages, thoughts, memories and retrievables."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypedDict, Unpack, cast, get_args

from spindle import artifacts, media
from spindle.calls import ToolCallRecord
from spindle.errors import (
    InvalidDispatchContextError,
    InvalidMemoryError,
    InvalidMessageError,
    InvalidRecordError,
    InvalidRetrievableError,
    InvalidThoughtError,
    InvalidTurnContextError,
)
from spindle.json_types import JsonValue, is_iterable, is_list_or_tuple, is_mapping, untyped
from spindle.text import new_id
from spindle.trust.labels import Label

if TYPE_CHECKING:
    from spindle.artifacts.artifact import Artifact
    from spindle.media import Media, TrustTier

Role: TypeAlias = Literal["user", "assistant", "system", "tool"]

_ROLES: tuple[str, ...] = get_args(Role)
_A_ROLE = f"one of {', '.join(_ROLES)}"

_A_LABEL = f"None or one of {', '.join(get_args(Label))}"
_AN_ARTIFACT_CLASS = "an artifact class, a function without arguments that returns one, or None"

_MAY_BE_EMPTY = ("assistant", "tool")
"""Roles whose messages may be empty."""


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class _Record:
    """The fields of all record types; the default id sorts by creation time."""

    invalid: ClassVar[type[InvalidRecordError]] = InvalidRecordError

    id: str = field(default_factory=new_id)
    created_at: datetime = field(default_factory=_now)
    updated_at: datetime = field(default_factory=_now)

    def __post_init__(self) -> None:
        problems = dict(self._find_problems())
        if problems:
            said = "; ".join(f"{name} must be {wish}" for name, wish in problems.items())
            raise self.invalid(f"Invalid {type(self).__name__}: {said}.", fields=tuple(problems))

    def _find_problems(self) -> Iterator[tuple[str, str]]:
        """Yield each invalid field with what was expected of it."""
        if not _is_text(self.id):
            yield "id", "non-empty text"
        if not _is_time(self.created_at):
            yield "created_at", "a time with a time zone"
        if not _is_time(self.updated_at):
            yield "updated_at", "a time with a time zone"


class MessageFields(TypedDict, total=False):
    """The fields of a message besides its role and content."""

    id: str
    created_at: datetime
    updated_at: datetime
    attachments: tuple["Media", ...]
    identity: str | None
    label: Label | None


@dataclass(frozen=True, kw_only=True)
class Message(_Record):
    """A message of a conversation, with text, attachments, or both.

    Raises:
        InvalidMessageError: A value is invalid; `fields` names every one.
    """

    invalid = InvalidMessageError

    role: Role
    content: str = ""
    """May be empty with attachments, and in messages of a model or a tool."""
    attachments: tuple["Media", ...] = ()
    identity: str | None = None
    """The author, if the role is not precise enough."""
    label: Label | None = None
    """Of a model's message: the trust label of its session when it was written, if there was a flow policy."""

    def __post_init__(self) -> None:
        if _is_a(self.attachments, list):
            object.__setattr__(self, "attachments", tuple(self.attachments))
        super().__post_init__()

    def _find_problems(self) -> Iterator[tuple[str, str]]:
        yield from super()._find_problems()
        if self.role not in _ROLES:
            yield "role", _A_ROLE
        may_be_empty = self.role in _MAY_BE_EMPTY or bool(self.attachments)
        if not _is_text(self.content, may_be_empty=may_be_empty):
            yield "content", "text, non-empty without attachments"
        if not _is_a(self.attachments, tuple) or not all(media.Media.is_media(each) for each in self.attachments):
            yield "attachments", "a tuple of Media"
        if self.identity is not None and not _is_text(self.identity):
            yield "identity", "non-empty text, or None"
        if not _is_label(self.label):
            yield "label", _A_LABEL

    @classmethod
    def user(cls, content: str, **facts: Unpack[MessageFields]) -> "Message":
        """Build a message of the user."""
        return cls(role="user", content=content, **facts)

    @classmethod
    def assistant(cls, content: str, **facts: Unpack[MessageFields]) -> "Message":
        """Build a message of the model."""
        return cls(role="assistant", content=content, **facts)

    @classmethod
    def system(cls, content: str, **facts: Unpack[MessageFields]) -> "Message":
        """Build a system message."""
        return cls(role="system", content=content, **facts)

    @classmethod
    def of(cls, value: object) -> "Message":
        """Convert a message, a user's text, or a mapping with `role` and `content` to a message.

        Raises:
            InvalidMessageError: The value is none of these.
        """
        if isinstance(value, Message):
            return value
        if isinstance(value, str):
            return cls.user(value)
        try:
            return cls(**cast("Mapping[str, Any]", value))
        except TypeError:
            known = ", ".join(each.name for each in fields(cls))
            raise InvalidMessageError(
                f"Expected a Message, text, or a mapping with some of {known}, got {type(value).__name__}.",
                fields=("message",),
            ) from None


MessageLike: TypeAlias = Message | str | Mapping[str, object]
"""What a conversation may consist of: messages, texts of the user, or mappings; `Message.of` converts each."""


def check_messages(messages: Iterable[MessageLike]) -> Iterable[MessageLike]:
    """Return the messages of a turn.

    Raises:
        InvalidTurnContextError: They are a single message; its letters or keys would each become one.
    """
    given = untyped(messages)
    if isinstance(given, (str, bytes, Mapping)) or not is_iterable(given):
        raise InvalidTurnContextError("messages must be a list, such as ['Hello'].", field="messages")
    return messages


def check_attachments(attachments: "Iterable[Media]") -> "tuple[Media, ...]":
    """Return the attachments of a turn as a tuple.

    Raises:
        InvalidTurnContextError: One is not a `Media`, or two share an id.
    """
    if attachments == ():
        return ()
    given = tuple(attachments) if is_iterable(untyped(attachments)) else (None,)
    are_media = all(media.Media.is_media(each) for each in given)
    if not are_media or len({each.id for each in given if each is not None}) < len(given):
        raise InvalidTurnContextError(
            "attachments must be a list of Media with different ids, such as Media.user_attachment(…).",
            field="attachments",
        )
    return tuple(each for each in given if each is not None)


def may_have_attachments(message: object) -> bool:
    """Return whether a message has attachments for tools, or is a mapping, which may be changed in place."""
    return bool(message.role == "user" and message.attachments) if isinstance(message, Message) else is_mapping(message)


def collect_attachments(given: "tuple[Media, ...]", messages: Iterable[object]) -> "tuple[Media, ...]":
    """Return the attachments of a turn and of the user's messages; one id is one attachment, the first counts."""
    found = {each.id: each for each in given}
    for message in messages:
        if isinstance(message, Message):
            role, sent = message.role, message.attachments
        elif is_mapping(message):
            role, sent = message.get("role"), message.get("attachments")
        else:
            continue
        if role == "user" and is_list_or_tuple(sent):
            for each in sent:
                if media.Media.is_media(each):
                    found.setdefault(each.id, each)
    return tuple(found.values())


@dataclass(frozen=True, kw_only=True)
class Thought(_Record):
    """A piece of a model's reasoning, with text, or a payload that only its vendor can read.

    Raises:
        InvalidThoughtError: A value is invalid; `fields` names every one.
    """

    invalid = InvalidThoughtError

    content: str = ""
    payload: JsonValue = None
    """Opaque; sent back to the vendor unchanged."""
    replay_compatibility: str | None = None
    """The vendor and version that accept the payload; required with a payload."""

    def _find_problems(self) -> Iterator[tuple[str, str]]:
        yield from super()._find_problems()
        has_payload, tag = self.payload is not None, self.replay_compatibility
        if not _is_text(self.content, may_be_empty=has_payload):
            yield "content", "text, non-empty without payload"
        if not _is_text(tag) and (tag is not None or has_payload):
            yield "replay_compatibility", "non-empty text, and set with a payload"


@dataclass(frozen=True, kw_only=True)
class Memory(_Record):
    """A fact to remember in later turns.

    Raises:
        InvalidMemoryError: A value is invalid; `fields` names every one.
    """

    invalid = InvalidMemoryError

    content: str
    confidence: float = 1.0
    importance: float = 0.5
    label: Label | None = None
    """The trust label of the content; a turn with a flow policy sets that of its session if there is none.

    A flow policy reads `None` as the least trusted label.
    """

    def _find_problems(self) -> Iterator[tuple[str, str]]:
        yield from super()._find_problems()
        if not _is_text(self.content):
            yield "content", "non-empty text"
        if not _is_fraction(self.confidence):
            yield "confidence", "a number from 0 to 1"
        if not _is_fraction(self.importance):
            yield "importance", "a number from 0 to 1"
        if not _is_label(self.label):
            yield "label", _A_LABEL


@dataclass(frozen=True, kw_only=True)
class Retrievable(_Record):
    """A text that was retrieved for the turn; its trust tier is required and never guessed.

    Raises:
        InvalidRetrievableError: A value is invalid; `fields` names every one.
    """

    invalid = InvalidRetrievableError

    content: "str | Artifact"
    trust_tier: "TrustTier"
    score: float = 1.0
    """Relevance, from 0 to 1."""
    inline: bool = False
    """Whether the full text is shown instead of a handle."""
    source: str | None = None
    """Where the text was found; informational only."""
    artifact_constructor: "type[Artifact] | Callable[[], type[Artifact]] | None" = None
    """The artifact class for a text that is shown as a handle, or a function that returns one."""

    def __post_init__(self) -> None:
        resolver = self.artifact_constructor
        if callable(resolver) and not isinstance(resolver, type):
            object.__setattr__(self, "artifact_constructor", _call_resolver(resolver))
        super().__post_init__()

    def _find_problems(self) -> Iterator[tuple[str, str]]:
        yield from super()._find_problems()
        if not _is_text(self.content) and not artifacts.Artifact.is_artifact(self.content):
            yield "content", "non-empty text, or an artifact"
        if self.trust_tier not in get_args(media.TrustTier):
            yield "trust_tier", f"one of {', '.join(get_args(media.TrustTier))}"
        if not _is_fraction(self.score):
            yield "score", "a number from 0 to 1"
        if not _is_a(self.inline, bool):
            yield "inline", "a bool"
        if self.source is not None and not _is_text(self.source):
            yield "source", "non-empty text, or None"
        if not _is_artifact_class(self.artifact_constructor):
            yield "artifact_constructor", _AN_ARTIFACT_CLASS


def _call_resolver(resolver: Callable[[], object]) -> object:
    try:
        return resolver()
    except Exception as error:
        raise InvalidRetrievableError(
            f"artifact_constructor raised {type(error).__name__}: {error}", fields=("artifact_constructor",)
        ) from error


def _is_artifact_class(value: object) -> bool:
    return value is None or (isinstance(value, type) and issubclass(value, artifacts.Artifact))


def _is_label(value: object) -> bool:
    return value is None or value in get_args(Label)


def _is_a(value: object, kind: type) -> bool:
    """Check a field whose declared type already promises it: callers may be untyped."""
    return isinstance(value, kind)


def _is_text(value: object, *, may_be_empty: bool = False) -> bool:
    return isinstance(value, str) and (may_be_empty or bool(value))


def _is_time(value: object) -> bool:
    return isinstance(value, datetime) and value.utcoffset() is not None


def _is_fraction(value: object) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return math.isfinite(value) and 0 <= value <= 1 if isinstance(value, float) else value in {0, 1}


def check_dispatch_arguments(system_prompt: object, turn_id: object, calls: tuple[object, ...]) -> None:
    """Check the arguments of a dispatch context that decide what is recorded.

    Raises:
        InvalidDispatchContextError: Names the first invalid argument.
    """
    if not isinstance(system_prompt, str):
        raise InvalidDispatchContextError("system_prompt must be text", field="system_prompt")
    if turn_id is not None and not isinstance(turn_id, str):
        raise InvalidDispatchContextError("turn_id must be text, or None for a new one", field="turn_id")
    if not all(isinstance(call, ToolCallRecord) for call in calls):
        raise InvalidDispatchContextError("tool_calls must be ToolCallRecords", field="tool_calls")
