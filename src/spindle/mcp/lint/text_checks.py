"""Checks of the texts of one definition: poison, hidden characters, forged letters, encoded passages, credentials."""

import re
from collections.abc import Iterator
from typing import Final

from spindle.mcp.lint.confusables import find_mixed_words, fold_letters, is_forged_name
from spindle.mcp.lint.findings import Finding, quote, show_name
from spindle.mcp.lint.poison import find_poison, find_private_file, is_suspicious
from spindle.mcp.lint.readings import decode_hidden, decode_passages
from spindle.mcp.lint.rules import report
from spindle.mcp.lint.subjects import MAX_ALL_CHARS, MAX_PARTS, ListedText, Subject
from spindle.text import REMOVED
from spindle.trust.sanitise import find_hidden, has_special_token

_ACCIDENTS: Final = re.compile(rf"[{REMOVED}\u2028\u2029\x0b\x0c\x80-\x9f]{{1,7}}|[\ufe00-\ufe0f]")
"""Runs of invisible characters that get into texts by accident."""
_MAX_ACCIDENTS: Final = 20
_STRUCK: Final = re.compile(r"</?s>", re.IGNORECASE)  # HTML for struck text, and a token of Llama 2
_BLANK: Final = re.compile(r"\s{40,}+")
_PADDING_CHARS: Final = 250
_PADDING_LINES: Final = 40
_COMMENT_CHARS: Final = 9
"""The characters of a comment of HTML that says something."""
_MARKUP: Final = re.compile(
    r"\[//\]: ?#|\[comment\]: ?[#<]"
    r"|(?:display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0|opacity\s*:\s*0(?![.\d])|color\s*:\s*(?:white|#fff))",
    re.IGNORECASE,
)
_CREDENTIAL: Final = re.compile(
    r"(?<!\w)(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-(?:[a-z]+-)*[A-Za-z0-9]{20,}"
    r"|xox[abeprs]-\d[\w-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}(?!\w)|AIza[\w-]{35}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}"
    r"|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+|-----BEGIN [A-Z ]{0,20}PRIVATE KEY|[a-z][a-z0-9+.-]{1,20}://[^\s:/@]{1,60}:"
    r"(?!pass|\*|<|\{|\$|your|xxx)[^\s:/@]{6,60}@(?!example|host|localhost))"
)
_FAKE: Final = re.compile(r"(?i)example|xxxx|your|1234567890|abcdef|placeholder|\.\.\.|EXAMPLEKEY|0{8}")


def check_texts(subject: Subject) -> Iterator[Finding]:
    """Yield the findings of all texts of a definition."""
    texts = subject.find_texts()
    if not texts.is_complete:
        message = f"the definition has more than {MAX_ALL_CHARS:,} characters or {MAX_PARTS:,} texts"
        yield report("SP121", subject, f"{message}; the rest was not read")
    parts = texts.parts
    if is_suspicious([part.text for part in parts]):
        for part in parts:
            yield from check_poison(subject, part)
    for part in parts:
        yield from check_hidden(subject, part)
        yield from _check_letters(subject, part)
        yield from _check_markup(subject, part)
        yield from _check_passages(subject, part)
        credential = _CREDENTIAL.search(part.text)
        if credential is not None and not _FAKE.search(credential[0]):
            shown = quote(f"{credential[0][:8]}…")  # never the credential itself
            yield report("SP203", subject, "a credential stands in the definition", place=part.place, quote=shown)


def check_poison(subject: Subject, part: ListedText) -> Iterator[Finding]:
    """Yield the poison in one text, in every reading of it."""
    for found in find_poison(part.text):
        how = f", {found.how}" if found.how else ""
        yield report(
            found.rule,
            subject,
            f"{_MESSAGES[found.rule]}{how}",
            place=part.place,
            quote=quote(found.text, found.start, found.end),
        )


_MESSAGES: Final = {
    "SP101": "overrides the instructions of the model",
    "SP102": "tells the model to conceal something",
    "SP103": "poses as a part of the prompt",
    "SP104": "gives orders about other tools or every request",
    "SP105": "tells the model to read private data and pass it on",
    "SP106": "sends data away",
    "SP107": "changes what other tools do",
    "SP119": "takes the approval of the user for granted",
    "SP120": "tells the model to run code from elsewhere",
}


def check_hidden(subject: Subject, part: ListedText) -> Iterator[Finding]:
    """Yield one finding for the hidden characters of a text."""
    runs = list(find_hidden(part.text))
    if not runs:
        return
    spelled = decode_hidden(part.text)
    says = f"; they spell {show_name(spelled)}" if spelled else ""
    worst = [run for run in runs if not _ACCIDENTS.fullmatch(part.text, *run)]
    is_accident = not worst and part.role == "text" and len(runs) <= _MAX_ACCIDENTS
    start, end = (worst or runs)[0]
    count = sum(last - first for first, last in runs)
    kind = {"name": "a name", "value": "a value of the contract", "text": "the text"}[part.role]
    yield report(
        "SP109" if is_accident else "SP108",
        subject,
        f"{kind} has {count} hidden character{'' if count == 1 else 's'}{says}",
        place=part.place,
        quote=quote(part.text, start, min(end, start + 8)),
    )


def _check_letters(subject: Subject, part: ListedText) -> Iterator[Finding]:
    if part.text.isascii():
        return
    if part.role == "name" and is_forged_name(part.text):
        message = f"the name looks like {show_name(fold_letters(part.text))}, but has other letters"
        yield report("SP111", subject, message, place=part.place, quote=quote(_spell(part.text)))
        return
    word = next(find_mixed_words(part.text), None)
    if word is not None:
        message = f"a word mixes scripts: it looks like {show_name(fold_letters(word[0]))}"
        yield report("SP112", subject, message, place=part.place, quote=quote(part.text, *word.span()))


def _spell(text: str) -> str:
    return "".join(each if each.isascii() else f"{each}(U+{ord(each):04X})" for each in text[:40])


def _check_markup(subject: Subject, part: ListedText) -> Iterator[Finding]:
    text = part.text
    if has_special_token(_STRUCK.sub("", text)) and part.role == "text":
        yield report("SP103", subject, "contains a token of chat templates", place=part.place, quote=quote(text))
    blank = next((run for run in _BLANK.finditer(text) if _is_padding(run)), None)
    if blank is not None:
        message = f"text follows {len(blank[0])} blank characters"
        yield report("SP110", subject, message, place=part.place, quote=quote(text, blank.end(), blank.end() + 60))
    hidden, comment = _MARKUP.search(text), text.find("<!--")
    if hidden is not None or 0 <= comment < len(text) - _COMMENT_CHARS:
        start = hidden.start() if hidden is not None else comment
        message = "markup keeps text out of sight"
        yield report("SP110", subject, message, place=part.place, quote=quote(text, start, start + 60))


def _is_padding(run: re.Match[str]) -> bool:
    """Return whether white space pushes the text behind it out of view."""
    blank, is_inside = run[0], run.start() > 0 and run.end() < len(run.string)
    return is_inside and (len(blank) >= _PADDING_CHARS or blank.count("\n") >= _PADDING_LINES)


def _check_passages(subject: Subject, part: ListedText) -> Iterator[Finding]:
    for how, passages in decode_passages(part.text):
        message = f"a text {how}: {show_name(passages[0])}"
        yield report("SP117", subject, message, place=part.place, quote=quote(part.text))
    named = find_private_file(part.text) if part.role == "text" and part.text.isascii() else None
    if named is not None:
        yield report("SP118", subject, "names a private file", place=part.place, quote=quote(part.text, *named))
