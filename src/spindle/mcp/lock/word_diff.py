"""Differences of definitions word by word, with every hidden or misleading character written as a number."""

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from typing import Final, Literal, TypeAlias

from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.text import INVISIBLE
from spindle.tools.identity import canonical_json

PieceType: TypeAlias = Literal["same", "removed", "added"]

_MAX_PRODUCT: Final = 4_000_000
"""Beyond this product of word counts, the differing middle is shown as a whole: a comparison would take too long."""
_TAGS: Final = "\U000e0020-\U000e007e"
_LOOKALIKES: Final = frozenset(
    "\u0430\u0441\u0435\u043e\u0440\u0445\u0443\u0456\u0458\u0455\u04bb\u0501\u051b\u051d"  # Cyrillic, small
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0406\u0408\u0405"  # Cyrillic, capital
    "\u03bf\u03c1\u03b1\u03bd\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
)
"""Letters of other scripts that look like Latin ones."""
_SIMILAR_SCRIPTS: Final = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "GEORGIAN")


@dataclass(frozen=True, slots=True)
class DiffPiece:
    """A part of a text that stayed, was removed or was added; its hidden characters are revealed."""

    type: PieceType
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TextChange:
    """The difference of one value in a definition."""

    path: str
    """Where it is, such as `inputSchema.properties.to.description`."""
    pieces: tuple[DiffPiece, ...]

    def to_text(self) -> str:
        """Return the difference on plain text: `[-removed-]` and `{+added+}`."""
        return "".join(self.get_marked())

    def get_marked(self) -> list[str]:
        """Return the text of each piece with its marks."""
        return [_mark_piece(piece) for piece in self.pieces]


def _mark_piece(piece: DiffPiece) -> str:
    # The text itself must not look like a mark.
    text = _MARKS.sub(lambda found: f"<U+{ord(found[0]):04X}>", piece.text)
    return {"same": text, "removed": f"[-{text}-]", "added": f"{{+{text}+}}"}[piece.type]


_MARKS = re.compile(r"\[(?=-)|(?<=-)\]|\{(?=\+)|(?<=\+)\}|\A\]|\A\}|\[\Z|\{\Z")


_LETTERS: Final = rf"(?:(?![{INVISIBLE}])[^\W_])+"


@cache
def _hidden() -> re.Pattern[str]:
    return re.compile(rf"[{_TAGS}]{{2,}}|[{INVISIBLE}\r]|<(?=U\+|tags )|(?P<word>{_LETTERS})")


@cache
def _words() -> re.Pattern[str]:
    return re.compile(rf"{_LETTERS}|[{INVISIBLE}]+|\s+|.", re.DOTALL)


def reveal_hidden(text: str) -> str:
    """Return the text with hidden characters as `<U+200B>`, and the number behind letters that imitate Latin ones.

    Text hidden in tag characters is decoded: `<tags "ignore …">`. A text that looks like such a mark is broken up.
    """
    if text.isascii() and text.isprintable() and "<" not in text:
        return text
    return _hidden().sub(_reveal, text)


def _reveal(found: re.Match[str]) -> str:
    run = found[0]
    if found["word"] is not None:
        return run if run.isascii() else _mark_lookalikes(run)
    numbers = "".join(f"<U+{ord(each):04X}>" for each in run)
    if len(run) == 1:
        return numbers
    return f"{numbers}<tags {json.dumps(''.join(chr(ord(each) - 0xE0000) for each in run))}>"


def _mark_lookalikes(word: str) -> str:
    has_latin = any(each.isascii() and each.isalpha() for each in word)
    if not has_latin and not all(each in _LOOKALIKES or each.isdigit() or _has_latin_form(each) for each in word):
        return word
    return "".join(f"{each}<U+{ord(each):04X}>" if _is_foreign(each) else each for each in word)


def _is_foreign(letter: str) -> bool:
    """Return whether a letter is from a script with Latin look-alikes, or a variant of a Latin one."""
    if letter.isascii() or not letter.isalpha():
        return False
    return unicodedata.name(letter, "").startswith(_SIMILAR_SCRIPTS) or _has_latin_form(letter)


def _has_latin_form(letter: str) -> bool:
    """Return whether a letter is a styled Latin one, such as a full-width or a mathematical letter."""
    return not letter.isascii() and unicodedata.normalize("NFKC", letter).isascii()


def diff_words(before: str, after: str) -> tuple[DiffPiece, ...]:
    """Return the difference of two texts, in words."""
    old: list[str] = _words().findall(before)
    new: list[str] = _words().findall(after)
    start = _count_common(old, new)
    end = _count_common(old[start:][::-1], new[start:][::-1])
    middle_old, middle_new = old[start : len(old) - end], new[start : len(new) - end]
    parts: list[tuple[PieceType, list[str]]] = [("same", old[:start])]
    if len(middle_old) * len(middle_new) > _MAX_PRODUCT:
        parts.extend((("removed", middle_old), ("added", middle_new)))
    else:
        matcher = SequenceMatcher(None, middle_old, middle_new, autojunk=False)
        for step, old_from, old_to, new_from, new_to in matcher.get_opcodes():
            if step == "equal":
                parts.append(("same", middle_old[old_from:old_to]))
            else:
                parts.extend((("removed", middle_old[old_from:old_to]), ("added", middle_new[new_from:new_to])))
    parts.append(("same", old[len(old) - end :]))
    return tuple(DiffPiece(kind, reveal_hidden("".join(words))) for kind, words in parts if words)


def _count_common(one: list[str], other: list[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def diff_definitions(before: JsonObject | None, after: JsonObject | None) -> tuple[TextChange, ...]:
    """Return the difference of two definitions, value by value; `None` stands for a missing one."""
    old = {} if before is None else dict(_flatten(before))
    new = {} if after is None else dict(_flatten(after))
    found: list[TextChange] = []
    for path in [*old, *(path for path in new if path not in old)]:
        texts = _to_texts(old.get(path, ""), new.get(path, ""))
        if texts[0] != texts[1] or (path in old) != (path in new):
            found.append(TextChange(path=reveal_hidden(path), pieces=diff_words(*texts)))
    return tuple(found)


def _to_texts(before: JsonValue, after: JsonValue) -> tuple[str, str]:
    """Return two values to compare: texts as they are, and JSON if one of them is another value."""
    if isinstance(before, str) and isinstance(after, str):
        return before, after
    old, new = ("" if each == "" else canonical_json(each).decode() for each in (before, after))
    return old, new


def _flatten(value: JsonValue, path: str = "") -> Iterator[tuple[str, JsonValue]]:
    """Yield the path and the value of each leaf."""
    if is_object(value) and value:
        for key, part in value.items():
            # A key with a point cannot be mistaken for a path.
            step = key if key.isidentifier() else json.dumps(key, ensure_ascii=False)
            yield from _flatten(part, f"{path}.{step}" if path else step)
    elif is_array(value) and value:
        for number, part in enumerate(value):
            yield from _flatten(part, f"{path}[{number}]")
    else:
        yield path, value
