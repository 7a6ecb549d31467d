"""The record types of a turn besides tool calls: messages, thoughts, memories and retrievables."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, TypeAlias, cast, get_args

from spindle.artifacts.artifact import Artifact
from spindle.errors import (
    InvalidMemoryError,
    InvalidMessageError,
    InvalidRecordError,
    InvalidRetrievableError,
    InvalidThoughtError,
)
from spindle.media.labels import TrustTier, new_id
from spindle.media.media import Media

Role: TypeAlias = Literal["user", "assistant", "system", "tool"]

_ROLES: tuple[str, ...] = get_args(Role)
_A_ROLE = f"one of {', '.join(_ROLES)}"

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
        problems = {name: wish for name, wish in self._find_expectations().items() if wish}
        if problems:
            said = "; ".join(f"{name} must be {wish}" for name, wish in problems.items())
            raise self.invalid(f"Invalid {type(self).__name__}: {said}.", fields=tuple(problems))

    def _find_expectations(self) -> dict[str, str | None]:
        """Return what was expected of each field, or `None` if it is valid."""
        return {
            "id": _unless(_is_text(self.id), "non-empty text"),
            "created_at": _unless(_is_time(self.created_at), "a time with a time zone"),
            "updated_at": _unless(_is_time(self.updated_at), "a time with a time zone"),
        }


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
    attachments: tuple[Media, ...] = ()
    identity: str | None = None
    """The author, if the role is not precise enough."""

    def __post_init__(self) -> None:
        if isinstance(cast("object", self.attachments), list):
            object.__setattr__(self, "attachments", tuple(self.attachments))
        super().__post_init__()

    def _find_expectations(self) -> dict[str, str | None]:
        is_media = isinstance(cast("object", self.attachments), tuple) and all(map(Media.is_media, self.attachments))
        may_be_empty = self.role in _MAY_BE_EMPTY or bool(self.attachments)
        return {
            **super()._find_expectations(),
            "role": _unless(self.role in _ROLES, _A_ROLE),
            "content": _unless(
                _is_text(self.content, may_be_empty=may_be_empty), "text, non-empty without attachments"
            ),
            "attachments": _unless(is_media, "a tuple of Media"),
            "identity": _unless(self.identity is None or _is_text(self.identity), "non-empty text, or None"),
        }

    @classmethod
    def user(cls, content: str, **facts: Any) -> "Message":
        """Build a message of the user."""
        return cls(role="user", content=content, **facts)

    @classmethod
    def assistant(cls, content: str, **facts: Any) -> "Message":
        """Build a message of the model."""
        return cls(role="assistant", content=content, **facts)

    @classmethod
    def system(cls, content: str, **facts: Any) -> "Message":
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


@dataclass(frozen=True, kw_only=True)
class Thought(_Record):
    """A piece of a model's reasoning, with text, or a payload that only its vendor can read.

    Raises:
        InvalidThoughtError: A value is invalid; `fields` names every one.
    """

    invalid = InvalidThoughtError

    content: str = ""
    payload: Any = None
    """Opaque; sent back to the vendor unchanged."""
    replay_compatibility: str | None = None
    """The vendor and version that accept the payload; required with a payload."""

    def _find_expectations(self) -> dict[str, str | None]:
        has_payload, tag = self.payload is not None, self.replay_compatibility
        is_tag = _is_text(tag) or (tag is None and not has_payload)
        return {
            **super()._find_expectations(),
            "content": _unless(_is_text(self.content, may_be_empty=has_payload), "text, non-empty without payload"),
            "replay_compatibility": _unless(is_tag, "non-empty text, and set with a payload"),
        }


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

    def _find_expectations(self) -> dict[str, str | None]:
        return {
            **super()._find_expectations(),
            "content": _unless(_is_text(self.content), "non-empty text"),
            "confidence": _unless(_is_fraction(self.confidence), "a number from 0 to 1"),
            "importance": _unless(_is_fraction(self.importance), "a number from 0 to 1"),
        }


@dataclass(frozen=True, kw_only=True)
class Retrievable(_Record):
    """A text that was retrieved for the turn; its trust tier is required and never guessed.

    Raises:
        InvalidRetrievableError: A value is invalid; `fields` names every one.
    """

    invalid = InvalidRetrievableError

    content: str | Artifact
    trust_tier: TrustTier
    score: float = 1.0
    """Relevance, from 0 to 1."""
    inline: bool = False
    """Whether the full text is shown instead of a handle."""
    source: str | None = None
    """Where the text was found; informational only."""
    artifact_constructor: Any = None
    """The artifact class for a text that is shown as a handle, or a function that returns one."""

    def __post_init__(self) -> None:
        resolver: object = self.artifact_constructor
        if callable(resolver) and not isinstance(resolver, type):
            object.__setattr__(self, "artifact_constructor", _call_resolver(resolver))
        super().__post_init__()

    def _find_expectations(self) -> dict[str, str | None]:
        is_content = _is_text(self.content) or Artifact.is_artifact(self.content)
        return {
            **super()._find_expectations(),
            "content": _unless(is_content, "non-empty text, or an artifact"),
            "trust_tier": _unless(self.trust_tier in get_args(TrustTier), f"one of {', '.join(get_args(TrustTier))}"),
            "score": _unless(_is_fraction(self.score), "a number from 0 to 1"),
            "inline": _unless(isinstance(cast("object", self.inline), bool), "a bool"),
            "source": _unless(self.source is None or _is_text(self.source), "non-empty text, or None"),
            "artifact_constructor": _unless(_is_artifact_class(self.artifact_constructor), _AN_ARTIFACT_CLASS),
        }


def _call_resolver(resolver: Callable[[], object]) -> object:
    try:
        return resolver()
    except Exception as error:
        raise InvalidRetrievableError(
            f"artifact_constructor raised {type(error).__name__}: {error}", fields=("artifact_constructor",)
        ) from error


def _is_artifact_class(value: object) -> bool:
    return value is None or (isinstance(value, type) and issubclass(value, Artifact))


def _unless(is_valid: bool, expected: str) -> str | None:  # noqa: FBT001  reads as a sentence
    return None if is_valid else expected


def _is_text(value: object, *, may_be_empty: bool = False) -> bool:
    return isinstance(value, str) and (may_be_empty or bool(value))


def _is_time(value: object) -> bool:
    return isinstance(value, datetime) and value.utcoffset() is not None


def _is_fraction(value: object) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return math.isfinite(value) and 0 <= value <= 1 if isinstance(value, float) else value in {0, 1}
