"""Sanitiser for untrusted text: it breaks up chat-template tokens and reveals invisible characters.

No readable text is removed. A token is broken by a `※` after its first character (`<※|im_start|>`); a fake turn
(`Human:` after a blank line) gets one in front. Since nothing readable is removed, new tokens cannot form from the
pieces of others. Invisible characters are handled first. `SPECIAL_TOKENS` lists the tokens by model family.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final, NamedTuple

from spindle.text import INVISIBLE, REMOVED

BREAK: Final = "※"
"""Inserted into a token to break it: no token contains it, it has no lookalike, and no normalisation removes it."""


def add_break_after(first: str) -> str:
    """Break a token after its first character."""
    return first + BREAK


def add_break_before(first: str) -> str:
    """Break a token before its first character."""
    return BREAK + first


def rewrite(text: str, pattern: Callable[[], re.Pattern[str]], put: Callable[[str], str], *, needs: str) -> str:
    """Replace each character at which the group of `pattern` starts in the folded text by `put(character)`.

    Every match contains a character of `needs`; the pattern is compiled for the first text that has one.
    """
    folds = _folds(text)
    folded = text.translate({ord(character): fold for character, fold in folds.items()}) if folds else text
    if not any(each in folded for each in needs):
        return text
    places = (found.start(found.lastindex or 1) for found in pattern().finditer(folded))
    first = next(places, None)
    if first is None:
        return text
    pieces: list[str] = []
    done = 0
    for place in _origins(text, folds, _chain(first, places)):
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


def _chain(first: int, others: Iterator[int]) -> Iterator[int]:
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

# The patterns are compiled on first use: together they take 20 ms, which a program should not wait for at its start.


@cache
def _run() -> re.Pattern[str]:
    return re.compile(f"[{INVISIBLE}]+")


@cache
def _not_shown() -> re.Pattern[str]:
    return re.compile(f"[{REMOVED}]+")


@cache
def _at_home() -> re.Pattern[str]:
    """Match a full run of invisible characters between its two neighbours, where it has a legitimate use."""
    return re.compile(
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
    if text.isascii() and text.isprintable():
        return text
    return _run().sub(_reveal, text)


def find_hidden(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each run of invisible characters that has no legitimate use there."""
    if not (text.isascii() and text.isprintable()):
        for found in _run().finditer(text):
            if not _is_at_home(found):
                yield found.span()


def _is_at_home(found: re.Match[str]) -> bool:
    run, text = found[0], found.string
    # A placeholder for a missing neighbour: otherwise a character of the run could match as the neighbour.
    before = text[max(found.start() - 1, 0) : found.start()] or "\n"
    after = text[found.end() : found.end() + 1] or "\n"
    return len(run) <= 8 and _at_home().fullmatch(f"{before}{run}{after}") is not None


def _reveal(found: re.Match[str]) -> str:
    run = found[0]
    if _is_at_home(found):
        return run
    hidden = _not_shown().sub("", run)
    # A long run is abbreviated, so that hidden text cannot make a result many times longer.
    more = f"[+{len(hidden) - _MOST_SHOWN} invisible]" if len(hidden) > _MOST_SHOWN else ""
    return "".join(f"[U+{ord(each):04X}]" for each in hidden[:_MOST_SHOWN]) + more


_NAME: Final = rf"[^\s|<>{BREAK}]{{1,64}}"


class TokenFamily(NamedTuple):
    """Special tokens of model families: a pattern for what follows the opening bracket, and where they were found."""

    models: str
    opening: str
    pattern: str
    source: str


SPECIAL_TOKENS: Final = (
    TokenFamily(
        "ChatML, Llama 3 and 4, Phi, Harmony, Qwen, Command R, Granite, Kimi, GLM; DeepSeek with full-width bars",
        "<",
        rf"/?\|{_NAME}(?:\|(?:{_NAME})?)?>",
        "tokenizer_config.json of Qwen3, Llama 3, GLM-4.6V and gpt-oss",
    ),
    TokenFamily("Gemma 4", "<", r"/?[a-z_]{1,64}\|>", "tokenizer_config.json of Gemma 4: `<turn|>`, `<tool_call|>`"),
    TokenFamily(
        "Llama 2, Mistral, Gemma, Command R, Nemotron, Baichuan, GLM, InternLM, and reasoning tokens",
        "<",
        r"</?sys>>"
        r"|/?(?:s|bos|eos|pad|unk|mask|sop|eop|eod|eoh|eoa|eom|bom|think|[be]os_token|escape"
        r"|(?:start|end)_of_(?:turn|image|audio|role|utterance)|(?:image|audio)_soft_token"
        r"|(?:start|end)_function_(?:call|response|declaration)|(?:unused|reserved_|special_|extra_id_"
        r"|tokens_unused_|reserved_special_token_)[0-9]{1,5}|seed:[a-z_]{1,32})>",
        "tokenizer_config.json of Gemma 3 and FunctionGemma; mistral-common `SpecialTokens`",
    ),
    TokenFamily(
        "StarCoder, StarCoder2, Stable Code, Code Llama: fill in the middle and repositories",
        "<",
        r"/?(?:fim_(?:prefix|middle|suffix|pad)|gh_stars|reponame|repo_name|file_sep|empty_output"
        r"|issue_(?:start|comment|closed)|commit_(?:before|msg|after)|jupyter_(?:start|text|code|output|script))>"
        r"|(?-i:PRE|SUF|MID|EOT|FILL_ME)>",
        "bigcode StarCoder tokenizer; Code Llama `<PRE>`, in capitals only, because `<pre>` is HTML",
    ),
    TokenFamily(
        "tool calls and reminders in XML: Hermes, Qwen, GLM, Anthropic, LongCat, agents",
        "<",
        r"/?(?:[a-z][\w-]{0,15}:)?(?:tool|function)_?(?:calls?|responses?|results?|outputs?|use)(?![\w-])"
        r"|/?(?:tools|toolcall|available_tools|arg_key|arg_value|longcat_[a-z_]{1,32})(?![\w-])"
        r"|/?system>|/?tool_code>"
        r"|/?system[-_ ]?(?:reminder|prompt|message|instructions?|warning|note)(?![\w-])"
        r"|/?antml:"
        r"|/?invoke(?:>|\s{1,8}name\s{0,8}=)"
        r"|(?:function|parameter)=",
        "chat templates of Qwen3 and GLM-4.6V; published transcripts of coding agents",
    ),
    TokenFamily(
        "Mistral v1 to v13, Codestral, Pixtral, Voxtral, GLM",
        "[",
        "INST|TOOL_CALLS|AVAILABLE_TOOLS|TOOL_RESULTS|TOOL_CONTENT|SYSTEM_PROMPT|MODEL_SETTINGS|CALL_ID|ARGS|THINK"
        "|PREFIX|MIDDLE|SUFFIX|IMG|IMG_BREAK|IMG_END|AUDIO|BEGIN_AUDIO|TRANSCRIBE|MASK|gMASK|sMASK",
        "mistral-common `SpecialTokens`; vLLM's Mistral parser; tokenizer_config.json of GLM-4.6V",
    ),
)
"""The tokens that are broken up, looked up on 2026-11-16; MiniMax and turns without brackets are below."""


def _join_patterns(opening: str) -> str:
    return "|".join(family.pattern for family in SPECIAL_TOKENS if family.opening == opening)


_BRACKETED: Final = _join_patterns("[")


@cache
def _token() -> re.Pattern[str]:
    return re.compile(
        r"([<\[\]])(?=[|/A-Za-z~]|</?s)(?:"  # a cheap first test that rejects most brackets
        rf"(?<=<)(?={_join_patterns('<')})"
        # In lower case and directly after a word it is an index expression, `results[call_id]`, not a token.
        rf"|(?<=\[)(?=(?-i:/?(?:{_BRACKETED}))\])|(?<![\w)\]]\[)(?<=\[)(?=/?(?:{_BRACKETED})\])"
        r"|(?<=\[)(?=e~\[)|(?<=\])(?=~!?b[\[\]])"  # MiniMax
        r")",
        re.IGNORECASE,
    )


_NEWLINE: Final = r"(?>\r\n|[\n\r])"
_BLANK: Final = r"[^\S\n\r]"


# `System:` counts at the start of any line, also as a heading, a quotation or in bold; the others after a blank line.
@cache
def _turn() -> re.Pattern[str]:
    return re.compile(
        rf"(?:\A|{_NEWLINE}{_BLANK}*+{_NEWLINE}){_BLANK}*+((?:Human|Assistant){_BLANK}{{0,8}}:)"
        rf"|(?:\A|(?<=[\n\r])){_BLANK}*+(?:[#>*_-]{{1,6}}{_BLANK}*+)?+(System{_BLANK}{{0,8}}[*_]{{0,3}}{_BLANK}{{0,8}}:)",
        re.IGNORECASE,
    )


_GAP: Final = rf"[\s{INVISIBLE}]*+"


@cache
def _marker() -> re.Pattern[str]:
    """Match the beginning of the lines that end a truncated result."""
    return re.compile(rf"(\[){_GAP}(?:{_GAP.join('truncated')}|{_GAP.join('thewholeresult')})", re.IGNORECASE)


def break_markers(text: str) -> str:
    """Break up everything in a result's own text that resembles the note at the end of a truncated result."""
    return rewrite(text, _marker, add_break_after, needs="[")


def has_special_token(text: str) -> bool:
    """Return whether a text contains a chat-template token."""
    return rewrite(text, _token, add_break_after, needs="<[]") != text


def sanitise(text: str) -> str:
    """Neutralise chat-template tokens and invisible controls; the operation is idempotent."""
    shown = reveal_invisible(text)
    broken = rewrite(shown, _token, add_break_after, needs="<[]")
    return rewrite(broken, _turn, add_break_before, needs=":")
