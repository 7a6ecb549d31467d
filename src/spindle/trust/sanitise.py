"""Sanitiser for untrusted text: it breaks up chat-template tokens and reveals invisible characters.

No readable text is removed. A token is broken by a `※` after its first character (`<※|im_start|>`); a fake turn
(`Human:` after a blank line) gets one in front. Since nothing readable is removed, new tokens cannot form from the
pieces of others. Invisible characters are handled first.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Final

BREAK: Final = "※"
"""Inserted into a token to break it: no token contains it, it has no lookalike, and no normalisation removes it."""


def add_break_after(first: str) -> str:
    """Break a token after its first character."""
    return first + BREAK


def add_break_before(first: str) -> str:
    """Break a token before its first character."""
    return BREAK + first


def rewrite(text: str, pattern: re.Pattern[str], put: Callable[[str], str]) -> str:
    """Replace each character at which group 1 of `pattern` starts in the folded text by `put(character)`."""
    folds = _folds(text)
    folded = text.translate({ord(character): fold for character, fold in folds.items()}) if folds else text
    places = (found.start(1) for found in pattern.finditer(folded))
    first = next(places, None)
    if first is None:
        return text
    pieces: list[str] = []
    done = 0
    for place in _origins(text, folds, _chained(first, places)):
        if place >= done:  # one character may fold to several, and be matched several times
            pieces += (text[done:place], put(text[place]))
            done = place + 1
    return "".join([*pieces, text[done:]])


def _folds(text: str) -> dict[str, str]:
    """Return the characters of the text whose NFKC form contains ASCII, each with that form.

    Folding characters one by one is enough: composition never produces an ASCII character.
    """
    if text.isascii():
        return {}
    folds = {each: unicodedata.normalize("NFKC", each) for each in set(text) if not each.isascii()}
    return {each: fold for each, fold in folds.items() if any(part.isascii() for part in fold)}


def _chained(first: int, others: Iterator[int]) -> Iterator[int]:
    yield first
    yield from others


def _origins(text: str, folds: dict[str, str], places: Iterator[int]) -> Iterator[int]:
    """Map ascending positions in the folded text to positions in the original text."""
    grown = "".join(map(re.escape, (each for each, fold in folds.items() if len(fold) > 1)))
    growths = re.finditer(f"[{grown}]", text) if grown else iter(())
    shift = 0  # how much longer the folded text is, including the growths passed so far
    growth = next(growths, None)
    for place in places:
        while growth is not None and growth.start() + shift + len(folds[growth[0]]) <= place:
            shift += len(folds[growth[0]]) - 1
            growth = next(growths, None)
        is_inside = growth is not None and growth.start() + shift <= place
        yield growth.start() if growth is not None and is_inside else place - shift


REMOVED: Final = "\u00ad\u034f\u061c\u200b-\u200f\u2060\ufeff"
"""Soft hyphen, joiners, zero-width spaces and direction marks, as the body of a regex character class."""

INVISIBLE: Final = (
    REMOVED + r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # controls, without tab, newline and carriage return
    r"\u115f\u1160\u3164\uffa0\u17b4\u17b5"  # fillers: letters without a glyph
    r"\u2028-\u202e\u2061-\u206f"  # line separators, direction overrides and isolates, invisible operators
    r"\u180b-\u180f\ufe00-\ufe0f"  # variation selectors; those of plane 14 are below
    r"\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # annotations, shorthand and music controls
    r"\U000e0000-\U000e0fff"  # tags, and the rest of that block
    r"\ud800-\udfff\ufdd0-\ufdef"  # lone surrogates and noncharacters
     + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0, 0x110000, 0x10000))
)
"""Every character that is never displayed, as the body of a regex character class."""

_MOST_SHOWN: Final = 4
_EMOJI: Final = (
    "©®‼⁉™\u2139\u2190-\u21ff\u2300-\u23ffⓂ\u25a0-\u27bf\u2934\u2935\u2b00-\u2bff〰〽㊗㊙\U0001f000-\U0001faff"
)
# Arabic to Sinhala, Lao to Myanmar, Khmer to Vedic, Syloti to Meetei, Arabic forms, the older Indian scripts, Adlam.
_JOINED: Final = (
    "\u0600-\u0dff\u0e80-\u109f\u1780-\u1cff\ua800-\uabff\ufb50-\ufdff\ufe70-\ufefc"
    "\U00010a00-\U00011fff\U0001e900-\U0001e95f"
)
_IDEOGRAPHS: Final = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_FLAGS: Final = "|".join(
    "".join(chr(0xE0000 + ord(letter)) for letter in region) + "\U000e007f" for region in ("gbeng", "gbsct", "gbwls")
)

_RUN: Final = re.compile(f"[{INVISIBLE}]+")
_NOT_SHOWN: Final = re.compile(f"[{REMOVED}]+")
# A full run of invisible characters between its two neighbours, where it has a legitimate use.
_AT_HOME: Final = re.compile(
    rf"[{_EMOJI}][\ufe0e\ufe0f].?"
    rf"|[{_EMOJI}]\ufe0f?\u200d[{_EMOJI}]"
    r"|[0-9#*]\ufe0f\u20e3"
    rf"|\U0001f3f4(?:{_FLAGS}).?"
    rf"|[{_JOINED}][\u200c\u200d].?"
    rf"|[{_IDEOGRAPHS}][\ufe00-\ufe02\U000e0100-\U000e01ef].?"
    r"|[\u2200-\u2aff\u1000-\u109f]\ufe00.?"
    r"|[\u1800-\u18af][\u180b-\u180f].?"
    r"|[^\u115f\u1160]?[\u115f\u1160]{1,2}[\u1100-\u115e\u1161-\u11ff]",
    re.DOTALL,
)


def reveal_invisible(text: str) -> str:
    """Replace invisible characters by visible escapes, or remove them, unless they have a legitimate use there."""
    return _RUN.sub(_revealed, text)


def _revealed(found: re.Match[str]) -> str:
    run, text = found[0], found.string
    # A placeholder for a missing neighbour: otherwise a character of the run could match as the neighbour.
    before = text[max(found.start() - 1, 0) : found.start()] or "\n"
    after = text[found.end() : found.end() + 1] or "\n"
    if len(run) <= 8 and _AT_HOME.fullmatch(f"{before}{run}{after}"):
        return run
    told = _NOT_SHOWN.sub("", run)
    # A long run is abbreviated, so that hidden text cannot make a result many times longer.
    more = f"[+{len(told) - _MOST_SHOWN} invisible]" if len(told) > _MOST_SHOWN else ""
    return "".join(f"[U+{ord(each):04X}]" for each in told[:_MOST_SHOWN]) + more


# `<|…|>` is used by most: ChatML, Llama 3, Phi, Harmony, Command R, Granite, Kimi, GLM, fill-in-the-middle, and
# DeepSeek with full-width bars; `<|turn>` and `<turn|>` by later Gemmas, `<|x|y>` by DeepSeek's tool calls.
_NAME: Final = rf"[^\s|<>{BREAK}]{{1,64}}"
_BARRED: Final = rf"/?\|{_NAME}(?:\|(?:{_NAME})?)?>|/?[a-z_]{{1,64}}\|>"
# Llama 2 and Mistral, Gemma, Command R, Nemotron, Baichuan, GLM, InternLM, and reasoning tokens.
_ANGLED: Final = (
    r"</?sys>>"
    r"|/?(?:s|bos|eos|pad|unk|sop|eop|eod|eoh|eoa|eom|bom|think|[be]os_token|(?:start|end)_of_(?:turn|image|audio|role)"
    r"|image_soft_token|(?:start|end)_function_(?:call|response|declaration)|(?:unused|reserved_|special_|extra_id_"
    r"|tokens_unused_|reserved_special_token_)[0-9]{1,5}|seed:[a-z_]{1,32})>"
)
_TOOL_TAGS: Final = (
    r"/?(?:[a-z][\w-]{0,15}:)?(?:tool|function)_?(?:calls?|responses?|results?|outputs?|use)(?![\w-])"
    r"|/?(?:tools|toolcall|available_tools|arg_key|arg_value|longcat_[a-z_]{1,32})(?![\w-])"
    r"|/?antml:"
    r"|/?invoke(?:>|\s{1,8}name\s{0,8}=)"
    r"|(?:function|parameter)="
)
_BRACKETED: Final = (
    "INST|TOOL_CALLS|AVAILABLE_TOOLS|TOOL_RESULTS|TOOL_CONTENT|SYSTEM_PROMPT|MODEL_SETTINGS|CALL_ID|THINK"
    "|BEGIN_AUDIO|IMG_BREAK|IMG_END|gMASK|sMASK"
)
_TOKEN: Final = re.compile(
    r"([<\[\]])(?=[|/A-Za-z~]|</?s)(?:"  # a cheap first test that rejects most brackets
    rf"(?<=<)(?={_BARRED}|{_ANGLED}|{_TOOL_TAGS})"
    # In lower case and directly after a word it is an index expression, `results[call_id]`, not a token.
    rf"|(?<=\[)(?=(?-i:/?(?:{_BRACKETED}))\])|(?<![\w)\]]\[)(?<=\[)(?=/?(?:{_BRACKETED})\])"
    r"|(?<=\[)(?=e~\[)|(?<=\])(?=~!?b[\[\]])"  # MiniMax
    r")",
    re.IGNORECASE,
)
_NEWLINE: Final = r"(?>\r\n|[\n\r])"
_TURN: Final = re.compile(
    rf"(?:\A|{_NEWLINE}[^\S\n\r]*+{_NEWLINE})[^\S\n\r]*+((?:Human|Assistant)[^\S\n\r]{{0,8}}:)", re.IGNORECASE
)


def sanitise(text: str) -> str:
    """Neutralise chat-template tokens and invisible controls; the operation is idempotent."""
    shown = reveal_invisible(text)
    return rewrite(rewrite(shown, _TOKEN, add_break_after), _TURN, add_break_before)
