"""What a turn keeps besides its calls: messages, thoughts, memories and retrieved texts, as frozen values."""

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

_AN_ARTIFACT_CLASS = "a class of artifacts, a function without arguments that gives one, or None"

_SILENT = ("assistant", "tool")
"""A model may answer nothing, and so may a tool."""


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class _Record:
    """What all of them have; the id is in order of time unless one is given."""

    invalid: ClassVar[type[InvalidRecordError]] = InvalidRecordError

    id: str = field(default_factory=new_id)
    created_at: datetime = field(default_factory=_now)
    updated_at: datetime = field(default_factory=_now)

    def __post_init__(self) -> None:
        problems = {name: wish for name, wish in self._wishes().items() if wish}
        if problems:
            said = "; ".join(f"{name} must be {wish}" for name, wish in problems.items())
            raise self.invalid(f"this is no {type(self).__name__.lower()}: {said}", fields=tuple(problems))

    def _wishes(self) -> dict[str, str | None]:
        """Say of each field what it should have been, or `None` when it is."""
        return {
            "id": _unless(_is_text(self.id), "text that is not empty"),
            "created_at": _unless(_is_time(self.created_at), "a time with a time zone"),
            "updated_at": _unless(_is_time(self.updated_at), "a time with a time zone"),
        }


@dataclass(frozen=True, kw_only=True)
class Message(_Record):
    """One thing somebody said; it has text, attachments, or both.

    Raises:
        InvalidMessageError: A value is bad; `fields` names every one.
    """

    invalid = InvalidMessageError

    role: Role
    content: str = ""
    """May be empty beside attachments, and where a model or a tool answered nothing."""
    attachments: tuple[Media, ...] = ()
    identity: str | None = None
    """Who speaks, where the role does not say enough."""

    def __post_init__(self) -> None:
        if isinstance(cast("object", self.attachments), list):
            object.__setattr__(self, "attachments", tuple(self.attachments))
        super().__post_init__()

    def _wishes(self) -> dict[str, str | None]:
        is_media = isinstance(cast("object", self.attachments), tuple) and all(map(Media.is_media, self.attachments))
        may_be_empty = self.role in _SILENT or bool(self.attachments)
        return {
            **super()._wishes(),
            "role": _unless(self.role in _ROLES, _A_ROLE),
            "content": _unless(
                _is_text(self.content, may_be_empty=may_be_empty), "text, and not empty without attachments"
            ),
            "attachments": _unless(is_media, "a tuple of Media"),
            "identity": _unless(self.identity is None or _is_text(self.identity), "text that is not empty, or None"),
        }

    @classmethod
    def user(cls, content: str, **facts: Any) -> "Message":
        """Make a message of the user's."""
        return cls(role="user", content=content, **facts)

    @classmethod
    def assistant(cls, content: str, **facts: Any) -> "Message":
        """Make a message of the model's."""
        return cls(role="assistant", content=content, **facts)

    @classmethod
    def system(cls, content: str, **facts: Any) -> "Message":
        """Make a message of whoever wrote the program."""
        return cls(role="system", content=content, **facts)

    @classmethod
    def of(cls, value: object) -> "Message":
        """Take a message, a text of the user's, or a mapping with `role` and `content`, for a message.

        Raises:
            InvalidMessageError: It is none of these.
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
                f"a message is a Message, a text, or a mapping with some of {known}, not this {type(value).__name__}",
                fields=("message",),
            ) from None


@dataclass(frozen=True, kw_only=True)
class Thought(_Record):
    """One piece of a model's reasoning; it has text, or a payload that only its vendor can read.

    Raises:
        InvalidThoughtError: A value is bad; `fields` names every one.
    """

    invalid = InvalidThoughtError

    content: str = ""
    payload: Any = None
    """Opaque; handed back to the vendor as it came."""
    replay_compatibility: str | None = None
    """Which vendor and version may be given the payload back; required with one."""

    def _wishes(self) -> dict[str, str | None]:
        has_payload, tag = self.payload is not None, self.replay_compatibility
        is_tag = _is_text(tag) or (tag is None and not has_payload)
        return {
            **super()._wishes(),
            "content": _unless(_is_text(self.content, may_be_empty=has_payload), "text, and not empty without payload"),
            "replay_compatibility": _unless(is_tag, "text that is not empty, and given with a payload"),
        }


@dataclass(frozen=True, kw_only=True)
class Memory(_Record):
    """Something worth knowing in later turns.

    Raises:
        InvalidMemoryError: A value is bad; `fields` names every one.
    """

    invalid = InvalidMemoryError

    content: str
    confidence: float = 1.0
    importance: float = 0.5

    def _wishes(self) -> dict[str, str | None]:
        return {
            **super()._wishes(),
            "content": _unless(_is_text(self.content), "text that is not empty"),
            "confidence": _unless(_is_share(self.confidence), "a number from 0 to 1"),
            "importance": _unless(_is_share(self.importance), "a number from 0 to 1"),
        }


@dataclass(frozen=True, kw_only=True)
class Retrievable(_Record):
    """A text that was found for the turn; whose it is must be said, and is never guessed.

    Raises:
        InvalidRetrievableError: A value is bad; `fields` names every one.
    """

    invalid = InvalidRetrievableError

    content: str | Artifact
    trust_tier: TrustTier
    score: float = 1.0
    """How well it fits what was asked."""
    inline: bool = False
    """Whether it is shown whole instead of as a handle."""
    source: str | None = None
    """Where it was found; nothing is concluded from it."""
    artifact_constructor: Any = None
    """What a text is read as when it is shown by its handle: an artifact class, or a function that gives one."""

    def __post_init__(self) -> None:
        resolver: object = self.artifact_constructor
        if callable(resolver) and not isinstance(resolver, type):
            object.__setattr__(self, "artifact_constructor", _resolved(resolver))
        super().__post_init__()

    def _wishes(self) -> dict[str, str | None]:
        is_content = _is_text(self.content) or Artifact.is_artifact(self.content)
        return {
            **super()._wishes(),
            "content": _unless(is_content, "text that is not empty, or an artifact"),
            "trust_tier": _unless(self.trust_tier in get_args(TrustTier), f"one of {', '.join(get_args(TrustTier))}"),
            "score": _unless(_is_share(self.score), "a number from 0 to 1"),
            "inline": _unless(isinstance(cast("object", self.inline), bool), "a bool"),
            "source": _unless(self.source is None or _is_text(self.source), "text that is not empty, or None"),
            "artifact_constructor": _unless(_is_artifact_class(self.artifact_constructor), _AN_ARTIFACT_CLASS),
        }


def _resolved(resolver: Callable[[], object]) -> object:
    try:
        return resolver()
    except Exception as error:
        raise InvalidRetrievableError(
            f"artifact_constructor raised {type(error).__name__}: {error}", fields=("artifact_constructor",)
        ) from error


def _is_artifact_class(value: object) -> bool:
    return value is None or (isinstance(value, type) and issubclass(value, Artifact))


def _unless(holds: bool, wish: str) -> str | None:  # noqa: FBT001  reads as a sentence
    return None if holds else wish


def _is_text(value: object, *, may_be_empty: bool = False) -> bool:
    return isinstance(value, str) and (may_be_empty or bool(value))


def _is_time(value: object) -> bool:
    return isinstance(value, datetime) and value.utcoffset() is not None


def _is_share(value: object) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return math.isfinite(value) and 0 <= value <= 1 if isinstance(value, float) else value in {0, 1}
