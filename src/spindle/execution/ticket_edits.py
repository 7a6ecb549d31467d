"""Changing the arguments of a call that waits: its secrets are masked for the person who edits them, and kept."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from spindle.calls import RawArgs
from spindle.errors import InvalidRequestError, SecretError
from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.text import MASK

if TYPE_CHECKING:
    from spindle.execution.tickets import StoredTicket, TicketOffice


def change_arguments(office: "TicketOffice", ticket: "StoredTicket", changes: JsonObject) -> RawArgs:
    """Return the arguments of a call with some changes; `None` if they cannot be read, which `resume` then explains.

    Raises:
        InvalidRequestError: A change has a masked value.
    """
    try:
        real = office.read_arguments(ticket)
    except SecretError:
        # The arguments of an answered call are erased; what was shown of them tells whether it is the same answer.
        return None if ticket.answer is None else ticket.facts["args"] | changes
    _check_masks(changes, ticket.facts["args"], real)
    return real | changes


def replace_arguments(office: "TicketOffice", ticket: "StoredTicket", edited: JsonObject) -> RawArgs:
    """Return arguments that a person wrote on the basis of the masked ones, with the masked values put back.

    Returns `None` if the arguments cannot be read, which `resume` then explains.

    Raises:
        InvalidRequestError: A masked value was moved, so that the real one cannot be put back.
    """
    masked: JsonObject = ticket.facts["args"]
    try:
        real = office.read_arguments(ticket)
    except SecretError:
        return None if ticket.answer is None else edited
    restored = _restore(edited, masked, real)
    _check_masks(restored, masked, real)
    return restored if is_object(restored) else edited


def _check_masks(value: JsonValue, masked: JsonValue, real: JsonValue) -> None:
    """Refuse a text that only masking can have made: a mask is not what the tool shall get."""
    if all(shown == kept for shown, kept in _pair_leaves(masked, real)):
        return
    known = {text for _, text in _walk_texts(real)}
    for path, text in _walk_texts(value):
        if MASK in text and text not in known:
            raise InvalidRequestError(
                f"{path} has a masked value, which stands for a secret: leave it where it was, or write the real one",
                field="args",
            )


def _restore(edited: JsonValue, masked: JsonValue, real: JsonValue) -> JsonValue:
    """Return the edited value, with the real one wherever the masked one was left as it is."""
    if is_object(edited) and is_object(masked) and is_object(real):
        return {
            name: _restore(value, masked[name], real[name]) if name in masked and name in real else value
            for name, value in edited.items()
        }
    if is_array(edited) and is_array(masked) and is_array(real) and len(edited) == len(masked) == len(real):
        return [_restore(*values) for values in zip(edited, masked, real, strict=True)]
    # As text: for Python, 1, 1.0 and true are equal, and a person may have changed one into another.
    return real if json.dumps(edited) == json.dumps(masked) else edited


def _pair_leaves(masked: JsonValue, real: JsonValue) -> Iterator[tuple[JsonValue, JsonValue]]:
    if is_object(masked) and is_object(real):
        for name, value in masked.items():
            yield from _pair_leaves(value, real.get(name))
    elif is_array(masked) and is_array(real) and len(masked) == len(real):
        for pair in zip(masked, real, strict=True):
            yield from _pair_leaves(*pair)
    else:
        yield masked, real


def _walk_texts(value: JsonValue, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each text with its path; names of members are texts, too."""
    if is_object(value):
        for name, part in value.items():
            inner = f"{path}.{name}" if path else name
            yield inner, name
            yield from _walk_texts(part, inner)
    elif is_array(value):
        for number, part in enumerate(value):
            yield from _walk_texts(part, f"{path}[{number}]")
    elif isinstance(value, str):
        yield path, value
