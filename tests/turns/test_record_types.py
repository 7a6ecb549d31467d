"""The values a turn keeps: what they are made of, and what is refused."""

from dataclasses import FrozenInstanceError
from datetime import UTC, datetime
from typing import Any

import pytest

from spindle import Artifact
from spindle.errors import (
    InvalidMemoryError,
    InvalidMessageError,
    InvalidRecordError,
    InvalidRetrievableError,
    InvalidThoughtError,
)
from spindle.media import Media
from spindle.turns.record_types import Memory, Message, Retrievable, Thought

PICTURE = Media.user_attachment(b"x", kind="image", mime_type="image/png", filename="x.png")

BAD: list[tuple[type[Any], dict[str, Any], tuple[str, ...]]] = [
    (Message, {"role": "robot", "content": "x"}, ("role",)),
    (Message, {"role": [], "content": "x"}, ("role",)),
    (Message, {"role": "user"}, ("content",)),
    (Message, {"role": "system", "content": ""}, ("content",)),
    (Message, {"role": "user", "content": 5}, ("content",)),
    (Message, {"role": "user", "content": None, "attachments": (PICTURE,)}, ("content",)),
    (Message, {"role": "user", "content": "x", "attachments": ("x.png",)}, ("attachments",)),
    (Message, {"role": "user", "content": "x", "attachments": PICTURE}, ("attachments",)),
    (Message, {"role": "user", "content": "x", "identity": ""}, ("identity",)),
    (Message, {"role": "user", "content": "x", "id": ""}, ("id",)),
    (Message, {"role": "user", "content": "x", "id": None}, ("id",)),
    (Message, {"role": "user", "content": "x", "created_at": datetime(2026, 1, 1)}, ("created_at",)),  # noqa: DTZ001
    (Message, {"role": "user", "content": "x", "updated_at": "2026-01-01"}, ("updated_at",)),
    (Message, {"role": 1, "content": 2, "id": 3}, ("id", "role", "content")),
    (Thought, {}, ("content",)),
    (Thought, {"payload": {}}, ("replay_compatibility",)),
    (Thought, {"payload": {}, "replay_compatibility": ""}, ("replay_compatibility",)),
    (Thought, {"content": "x", "replay_compatibility": 5}, ("replay_compatibility",)),
    (Memory, {"content": ""}, ("content",)),
    (Memory, {"content": "x", "confidence": 1.1}, ("confidence",)),
    (Memory, {"content": "x", "confidence": True, "importance": float("nan")}, ("confidence", "importance")),
    (Memory, {"content": "x", "importance": 10**400}, ("importance",)),
    (Retrievable, {"content": "x", "trust_tier": "trusted"}, ("trust_tier",)),
    (Retrievable, {"content": "x", "trust_tier": None}, ("trust_tier",)),
    (Retrievable, {"content": "", "trust_tier": "first-party"}, ("content",)),
    (Retrievable, {"content": b"x", "trust_tier": "first-party"}, ("content",)),
    (Retrievable, {"content": "x", "trust_tier": "first-party", "score": -0.1}, ("score",)),
    (Retrievable, {"content": "x", "trust_tier": "first-party", "score": "1"}, ("score",)),
    (Retrievable, {"content": "x", "trust_tier": "first-party", "inline": 1}, ("inline",)),
    (Retrievable, {"content": "x", "trust_tier": "first-party", "source": ""}, ("source",)),
]

ERRORS: dict[type[Any], tuple[type[InvalidRecordError], str]] = {
    Message: (InvalidMessageError, "E_INVALID_INITIAL_MESSAGE_VALUE"),
    Thought: (InvalidThoughtError, "E_INVALID_INITIAL_THOUGHT_VALUE"),
    Memory: (InvalidMemoryError, "E_INVALID_INITIAL_MEMORY_VALUE"),
    Retrievable: (InvalidRetrievableError, "E_INVALID_INITIAL_RETRIEVABLE_VALUE"),
}


@pytest.mark.parametrize(("kind", "facts", "fields"), BAD)
def test_invalid_record_names_its_fields(kind: type[Any], facts: dict[str, Any], fields: tuple[str, ...]) -> None:
    error, code = ERRORS[kind]

    with pytest.raises(error) as caught:
        kind(**facts)

    assert (caught.value.fields, caught.value.field, caught.value.code) == (fields, fields[0], code)
    assert caught.value.fatal


def test_retrievable_requires_a_trust_tier() -> None:
    untyped: Any = Retrievable

    with pytest.raises(TypeError):
        untyped(content="x")


def test_valid_values_are_kept_unchanged() -> None:
    artifact = Artifact.from_text("x")
    found = Retrievable(content=artifact, trust_tier="third-party-private", score=0, inline=True)
    thought = Thought(payload=b"opaque", replay_compatibility="vendor-1")
    tagged = Thought(content="x", replay_compatibility="the tag alone is fine")
    memory = Memory(content="x", confidence=0.0, importance=1)

    assert (found.content, found.score, found.inline) == (artifact, 0, True)
    assert (thought.content, thought.payload, tagged.payload) == ("", b"opaque", None)
    assert (memory.confidence, memory.importance) == (0.0, 1)


def test_message_may_be_empty_only_with_attachments_or_from_model_and_tool() -> None:
    shown = Message(role="user", attachments=[PICTURE])  # pyright: ignore[reportArgumentType]  a list will do

    assert shown.attachments == (PICTURE,)
    assert Message.assistant("").content == ""
    assert Message(role="tool").content == ""


def test_records_have_ids_sorted_by_creation_time() -> None:
    before = datetime.now(UTC)
    first, second = Message.user("x"), Message.system("x")

    assert first.id < second.id
    assert before <= first.created_at <= first.updated_at


def test_records_are_frozen() -> None:
    untyped: Any = Message.user("x")

    with pytest.raises(FrozenInstanceError):
        untyped.content = "y"


@pytest.mark.parametrize(
    ("given", "role", "content"),
    [
        ("hello", "user", "hello"),
        ({"role": "assistant", "content": "hi"}, "assistant", "hi"),
        (Message.system("be brief"), "system", "be brief"),
    ],
    ids=["text", "mapping", "message"],
)
def test_message_of_converts_text_and_mappings(given: Any, role: str, content: str) -> None:
    message = Message.of(given)

    assert (message.role, message.content) == (role, content)


@pytest.mark.parametrize("given", [None, 5, [], {}, {"content": "x"}, {"role": "user", "text": "x"}, {1: 2}], ids=repr)
def test_message_of_rejects_other_values(given: Any) -> None:
    with pytest.raises(InvalidMessageError):
        Message.of(given)
