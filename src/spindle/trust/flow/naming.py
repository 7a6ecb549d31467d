"""Whether the user named something, or only used an ordinary word that an outsider has taken as a name.

An outsider can call an account `summary` and a file `Please`. Such a word counts as a name only if the user marked it:
in quotation marks, as `#summary`, or beside the word for its kind (`the summary channel`).
"""

from collections.abc import Collection, Iterator
from typing import Final

from spindle.trust.flow.text_index import Searchable
from spindle.trust.flow.tokens import WORD, fold

_MIN_CHARS: Final = 3
_MIN_DIGITS: Final = 5
"""A shorter number may be an amount or a year."""
_ORDINARY: Final = frozenset(
    """
    a about above account accounts add address after again all also always am an and another any app are as ask at back
    be because been before below best between big book both but buy by calendar call can cancel change chat check
    contact contacts content copy could create data date day days delete description details did do document documents
    does done down draft each edit email emails event events every file files find first folder follow for forward free
    from full get give go good had has have he hello help her here hey hi him his home how i id if important in inbox
    info information into invite invoice is issue it item items its just keep kind know last latest leave let like link
    list long look made mail make many me meeting meetings message messages month more most move much must my name need
    new next no not note notes now number of off ok old on once one only open or order orders other our out over own
    page part pay payment people person photo picture place plan please post price product project put read reminder
    remove reply report request right room same save say schedule search see send sent set share she short should show
    since so some start stop subject sum summarise summarize summary sure take task tasks team tell text than thank
    thanks that the their them then there these they thing things this those time title to today tomorrow tonight too
    transaction transactions transfer two under until up update urgent us use user users very view want was watch way
    we week weekend well were what when where which while who why will with without word work would write year yes
    yesterday you your yours
    """.split()  # noqa: SIM905  a list would take a line for each word
)
_ENDINGS: Final = ("ed", "d", "ing", "s", "es", "e", "ation")
_BEFORE_NAMES: Final = ("to", "with", "for", "from", "and", "or", "invite", "ask", "tell", "email", "message", "by")


def is_named(user: Searchable, text: str, nouns: Collection[str] = ()) -> bool:
    """Return whether the user said a text as a name; `nouns` are words for its kind, such as `channel`."""
    if user.find(text) is None:
        return False
    return (
        not is_ordinary(text)
        or any(user.find(form) is not None for form in _mark(text, nouns))
        or _is_person(user, text)
    )


def is_ordinary(text: str) -> bool:
    """Return whether a text is made of ordinary words or is a small number, so that saying it names nothing."""
    stripped = text.strip()
    if len(stripped) < _MIN_CHARS:
        return True
    if stripped.isdigit():
        return len(stripped) < _MIN_DIGITS
    words = WORD.findall(fold(stripped))
    if " ".join(words) != fold(stripped):  # marks inside, as in an address or a path
        return False
    return all(word in _ORDINARY for word in words)


def has_inflected(word: str, user: Searchable) -> bool:
    """Return whether the user said a word, given in small letters, in some form: `close` for `closed`."""
    stems = {word, *(word.removesuffix(ending) for ending in _ENDINGS if len(word) - len(ending) >= _MIN_CHARS)}
    return any(user.has_word(f"{stem}{ending}") for stem in stems for ending in ("", "e", *_ENDINGS))


def _mark(text: str, nouns: Collection[str]) -> Iterator[str]:
    for opening, closing in ('""', "''", "``", "\u201c\u201d", "\u2018\u2019", "\u00ab\u00bb", "\u201e\u201c"):
        yield f"{opening}{text}{closing}"
    yield from (f"#{text}", f"@{text}", f"id {text}", f"id: {text}", f"id={text}", f"number {text}", f"no. {text}")
    for noun in nouns:
        for word in (noun, noun.capitalize()):  # what has digits is compared with its case
            yield from (f"{word} {text}", f"{text} {word}", f"{word}: {text}", f"{word} #{text}")


def _is_person(user: Searchable, text: str) -> bool:
    """Return whether the user wrote a word with a capital inside a sentence, where only a name has one."""
    return text[:1].isupper() and any(user.find(f"{word} {text}", exact=True) is not None for word in _BEFORE_NAMES)
