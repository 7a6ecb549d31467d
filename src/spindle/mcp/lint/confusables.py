"""Letters that look like others: the skeleton of a name, and words that mix scripts.

The table is small and by hand: letters of the scripts that identifiers are forged with. What Unicode itself calls
compatible (full-width, mathematical and circled letters) is folded by NFKD.
"""
# ruff: noqa: RUF001 - letters of other scripts are what this module is about

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from spindle.text import INVISIBLE

_PAIRS: Final = {
    "Cyrillic": ("аaеeоoрpсcуyхxіiјjѕsһhԁdԛqԝwьbкkмmтtвbнhгrпnиuӏlӀlүvғfҽeАAВBЕEКKМMНHОOРPСCТTУYХXІIЈJЅSԌGԚQԜWЬbЗ3ҮY"),
    "Greek": "αaβbεeιiκkνvοoρpτtυuχxγyηnωwςcΑAΒBΕEΖZΗHΙIΚKΜMΝNΟOΡPΤTΥYΧXϲcϳjϹCϺM",
    "Armenian": "ոnսuօoհhցgզqյjաwԁdքpՏSՕOԼLՍUՈN",
    "Cherokee": "ᎪAᎬEᎫJᎳWᎷMᎻHᏀGᏃZᏚSᏢPᏞLᎢTᎡRᎠDᏟCᎥiᏴBᏦKᏙV",
    "Latin": "ıiɑaɡgɩiʟLꜱsᴀaʙbᴄcᴅdᴇeɢgʜhɪiᴊjᴋkᴍmɴnᴏoᴘpʀrᴛtᴜuᴠvᴡwʏyᴢzłløođdħhŧtƒfƅbǀlǃ!ꞌ'ßbæe",
    "other": "∕/⁄/∣l⏐l׀lߊl߀o০o௦o๐o໐o〇oⲟoⲣpⲥcⲭxⲓiᏂhꓐBꓑPꓓDꓔTꓖGꓗKꓙJꓚCꓜZꓝFꓟMꓠNꓡLꓢSꓣRꓥVꓦVꓧHꓪWꓫXꓬYꓮAꓰEꓲIꓳOꓴU",
}
_TABLE: Final = {ord(pairs[i]): pairs[i + 1] for pairs in _PAIRS.values() for i in range(0, len(pairs), 2)}
_SCRIPT: Final = {pairs[i]: script for script, pairs in _PAIRS.items() for i in range(0, len(pairs), 2)}
_MIXED_SCRIPTS: Final = frozenset(("Cyrillic", "Armenian", "Cherokee", "Greek"))
_GREEK_SYMBOLS: Final = frozenset("αβεικτχγηωΒΗςυ")
"""Greek letters that are symbols beside Latin ones in science: IFNγ, TNFα, χ2."""

_WORD: Final = re.compile(r"[^\W\d_]{2,64}")
_HIDDEN: Final = re.compile(f"[{INVISIBLE}]+")


def fold_letters(text: str) -> str:
    """Replace look-alike letters by the ASCII letters that they look like, and drop accents and hidden characters."""
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKD", _HIDDEN.sub("", text)).translate(_TABLE)
    return "".join(each for each in plain if not unicodedata.combining(each))


def build_skeleton(name: str) -> str:
    """Return a text that is the same for all names that look alike."""
    letters = fold_letters(name).replace("I", "l").casefold()
    return letters.replace("1", "l").replace("|", "l").replace("0", "o").replace("rn", "m").replace("vv", "w")


def fold_name(name: str) -> str:
    """Return a name without its form: `readFile`, `read-file` and `READ_FILE` are equal."""
    return re.sub(r"[\W_]+", "", name).casefold() or name


def find_mixed_words(text: str) -> Iterator[re.Match[str]]:
    """Yield the words that contain Latin letters and letters of another script that look like Latin ones."""
    if text.isascii():
        return
    for word in _WORD.finditer(text):
        letters = word[0]
        if letters.isascii():
            continue
        forged = [each for each in letters if _SCRIPT.get(each) in _MIXED_SCRIPTS and each not in _GREEK_SYMBOLS]
        if forged and any(each.isascii() for each in letters):
            yield word


def is_forged_name(name: str) -> bool:
    """Return whether a name looks like ASCII, but has letters of another script."""
    if name.isascii():
        return False
    looks_ascii = fold_letters(name).isascii()
    return looks_ascii and any(_SCRIPT.get(each, "Latin") != "Latin" for each in name)
