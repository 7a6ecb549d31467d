"""Labels of media, their validation, and safe file names and MIME types."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from spindle.errors import InvalidMediaError
from spindle.json_types import is_mapping
from spindle.media.readers import is_media_reader

MAX_FILENAME_CHARS: Final = 256
UNKNOWN_MIME_TYPE: Final = "application/octet-stream"

_WORD: Final = r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}"
_MIME_TYPE: Final = re.compile(rf"({_WORD})/({_WORD})", re.ASCII)
_FORBIDDEN: Final = frozenset('<>:"/\\|?*')
# Invisible characters whose Unicode category is a letter or a mark.
_INVISIBLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_UNSHOWN: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_RESERVED: Final = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])\s*(?:\.|$)", re.IGNORECASE)


def safe_filename(name: str) -> str:
    """Return `name` without characters that a shell, file system, page or prompt could interpret.

    Removed: `<>:"/\\|?*` and their compatibility forms, control, direction and invisible characters, leading dots,
    dashes and tildes, trailing dots. Reserved device names get the prefix `_`. The name is truncated to 256
    characters, keeping the extension.
    """
    shown = "".join(map(_filter_character, unicodedata.normalize("NFC", name)))
    trimmed = _trim(unicodedata.normalize("NFC", shown))
    if _RESERVED.match(trimmed):
        trimmed = f"_{trimmed}"
    return _truncate(trimmed) or "file"


def safe_mime_type(mime_type: str) -> str:
    """Return the bare `type/subtype` in lower case, or `application/octet-stream` if it is invalid."""
    bare = mime_type.partition(";")[0].strip(" \t").lower()
    return bare if _MIME_TYPE.fullmatch(bare) else UNKNOWN_MIME_TYPE


def _filter_character(character: str) -> str:
    category = unicodedata.category(character)
    if category in _UNSHOWN or _INVISIBLE.match(character):
        return ""
    if category == "Zs":
        return " "
    # NFKC, since a system that normalizes names would turn a full-width slash into a slash.
    return "" if _FORBIDDEN.intersection(unicodedata.normalize("NFKC", character)) else character


def _trim(name: str) -> str:
    return name.lstrip(" .-~").rstrip(" .")


def _truncate(name: str) -> str:
    if len(name) <= MAX_FILENAME_CHARS:
        return name
    stem, dot, ending = name.rpartition(".")
    if not stem or len(ending) > 16:
        return _trim(name[:MAX_FILENAME_CHARS])
    return stem[: MAX_FILENAME_CHARS - len(ending) - 1].rstrip(" .") + dot + ending


Kind: TypeAlias = Literal["image", "audio", "video", "document"]
TrustTier: TypeAlias = Literal["first-party", "third-party-public", "third-party-private"]
"""The origin of the bytes; each tier is trusted less, or protected more, than the previous one."""
ModalityHazard: TypeAlias = Literal["inert", "extractable-instructions", "opaque-perceptual"]
"""The risk of decoding: none, text with instructions, or content that only a model can perceive."""

_TIERS: Final[tuple[TrustTier, ...]] = get_args(TrustTier)
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "kind": get_args(Kind),
    "trust_tier": _TIERS,
    "modality_hazard": get_args(ModalityHazard),
}
_REQUIRED: Final = ("kind", "mime_type", "filename", "trust_tier", "modality_hazard", "reader")
# `application/…` fits every kind; audio often comes in a video container; a scanned document is an image.
_TOP_LEVELS: Final[Mapping[str, str]] = {
    "image": "image application",
    "audio": "audio video application",
    "video": "video audio application",
    "document": "application text image message multipart model font chemical",
}


@dataclass(frozen=True, slots=True)
class DerivedText:
    """Text derived from media: a transcript, a caption, a description."""

    value: str
    trust_tier: TrustTier
    derived_from_media: bool = True


StashEntry: TypeAlias = DerivedText | Mapping[str, Any]
"""A `DerivedText`, or a mapping `{"value": …, "trust_tier": …}`."""


def validate(given: Mapping[str, object]) -> None:
    """Validate the description of media.

    Raises:
        InvalidMediaError: A value is invalid or missing; `fields` names all of them.
    """
    problems = {name: "is missing" for name in _REQUIRED if name not in given}
    for name, value in given.items():
        problem = _problem(name, value, given)
        if problem is not None:
            problems[name] = problem
    problems |= dict(_entry_problems(given.get("stash")))
    if problems:
        said = "; ".join(f"{name} {problem}" for name, problem in problems.items())
        raise InvalidMediaError(f"invalid media: {said}", fields=tuple(problems))


def cap_trust(stash: Mapping[str, StashEntry], tier: TrustTier) -> dict[str, DerivedText]:
    """Convert validated entries to `DerivedText`, none trusted more than the media itself."""
    return {name: _cap_entry_trust(entry, tier) for name, entry in stash.items()}


def _cap_entry_trust(entry: StashEntry, tier: TrustTier) -> DerivedText:
    made = entry if isinstance(entry, DerivedText) else DerivedText(**entry)
    lower = _TIERS[max(_TIERS.index(made.trust_tier), _TIERS.index(tier))]
    return DerivedText(made.value, lower, made.derived_from_media)


def _problem(name: str, value: object, given: Mapping[str, object]) -> str | None:
    if name in _CHOICES:
        return None if value in _CHOICES[name] else f"is {value!r}, must be one of {', '.join(_CHOICES[name])}"
    if name == "reader":
        return None if is_media_reader(value) else f"is {type(value).__name__}, must have stream() and byte_length()"
    if name == "stash":
        return None if isinstance(value, Mapping) else f"is {type(value).__name__}, must map names to entries"
    if value is None and name not in _REQUIRED:
        return None
    if not isinstance(value, str) or not value:
        return f"is {value!r}, must be a non-empty str"
    return _find_kind_conflict(value, given.get("kind")) if name == "mime_type" else None


def _find_kind_conflict(mime_type: str, kind: object) -> str | None:
    bare = safe_mime_type(mime_type)
    allowed = _TOP_LEVELS.get(kind, "") if isinstance(kind, str) else ""
    if not allowed or bare == UNKNOWN_MIME_TYPE or bare.partition("/")[0] in allowed.split():
        return None
    return f"is {bare!r}, which does not fit the kind {kind!r}"


def _entry_problems(stash: object) -> Iterator[tuple[str, str]]:
    if not is_mapping(stash):
        return
    for name, entry in stash.items():
        problem = _entry_problem(entry) if isinstance(name, str) and name else "must have a non-empty str as its name"
        if problem is not None:
            yield f"stash.{name}", problem


def _entry_problem(entry: object) -> str | None:
    if isinstance(entry, DerivedText):
        facts: Mapping[object, object] = {"value": entry.value, "trust_tier": entry.trust_tier}
    elif is_mapping(entry):
        facts = entry
    else:
        return f"is {type(entry).__name__}, must have a value and a trust_tier"
    unknown = set(facts) - {"value", "trust_tier", "derived_from_media"}
    if unknown:
        return f"has unknown keys: {', '.join(sorted(map(str, unknown)))}"
    if not isinstance(facts.get("value"), str):
        return "must have a value of type str"
    if facts.get("trust_tier") not in _TIERS:
        return f"must have a trust_tier out of {', '.join(_TIERS)}"
    return (
        None
        if isinstance(facts.get("derived_from_media", True), bool)
        else "must have a derived_from_media of type bool"
    )
