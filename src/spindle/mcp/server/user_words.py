"""The user's own words in the answer to a question: what the question did not say itself.

A server, a tool or the model wrote the question. A value that stands in it, such as a default, a choice of a list or an
address in its text, is theirs although the user accepted it. So of an answer only the words count that the question
does not have. An approval says nothing about values.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, cast

from spindle.execution.approval_text import ApprovalText
from spindle.json_types import is_list_or_tuple, is_mapping
from spindle.mcp.server.elicitation import build_form, get_required_capability
from spindle.trust.flow.identifiers import find_identifiers
from spindle.turns.gates import Gate

MAX_ANSWER_CHARS: Final = 20_000
_MAX_QUESTION_CHARS: Final = 100_000
_PARTS: Final = re.compile(r"\w+")


def find_user_words(gate: Gate, value: object) -> list[str]:
    """Return the runs of words in an answer that the question does not have; nothing if in doubt."""
    if isinstance(cast("object", gate.payload), ApprovalText) or get_required_capability(gate) != "elicitation":
        return []
    texts = list(_iter_values(value))
    if not texts:
        return []
    question = _Question(gate)
    return [run for text in texts for run in question.remove_known(text)]


class _Question:
    """What a form says to the user, in its message and everywhere in its schema."""

    def __init__(self, gate: Gate) -> None:
        form: Any = build_form(gate).params
        texts = [str(form.message), *_iter_texts(form.requested_schema), *_iter_texts(gate.payload)]
        said = "\n".join(texts)[:_MAX_QUESTION_CHARS].casefold()
        self._parts = set(_PARTS.findall(said))
        self._identifiers = [each.casefold() for each in find_identifiers(said)]

    def remove_known(self, text: str) -> list[str]:
        """Return the words of a text that the question does not have, apart where one is left out."""
        runs: list[list[str]] = [[]]
        for word in text.split():
            if self._has(word.casefold()):
                runs.append([])
            else:
                runs[-1].append(word)
        return [" ".join(run) for run in runs if run]

    def _has(self, word: str) -> bool:
        parts = set(_PARTS.findall(word))
        return parts <= self._parts or any(each in word for each in self._identifiers)


def _iter_values(value: object) -> Iterator[str]:
    """Yield the texts and numbers of an answer; a tick in a box has no words."""
    if isinstance(value, str):
        yield value[:MAX_ANSWER_CHARS]
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield str(value)
    elif is_mapping(value):
        for part in value.values():
            yield from _iter_values(part)
    elif is_list_or_tuple(value):
        for part in value:
            yield from _iter_values(part)


def _iter_texts(value: object) -> Iterator[str]:
    """Yield every text and number of a schema or payload, and the names in it."""
    if isinstance(value, (str, int, float)):
        yield str(value)
    elif is_mapping(value):
        for name, part in value.items():
            yield str(name)
            yield from _iter_texts(part)
    elif is_list_or_tuple(value):
        for part in value:
            yield from _iter_texts(part)
