"""Numbers, dates, times and durations that a person has said, in the ways in which people say them.

A tool takes `2024-05-16 11:00` where the user said "May 16th at 10 for one hour". English words and the usual digits
are understood; what is not understood counts as not said, so a person is asked.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Final, NamedTuple, TypeVar

from spindle.trust.flow.text_index import Searchable
from spindle.trust.flow.tokens import fold

_MONTHS: Final = tuple(
    "january february march april may june july august september october november december".split(" ")  # noqa: SIM905  a list would take a line for each word
)
_MONTH: Final = f"(?P<month>{'|'.join(f'{name[:3]}(?:{name[3:]})?' for name in _MONTHS)}|sept)"
_DAY: Final = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?"
_YEAR: Final = r"(?:,?\s+(?P<year>[12]\d{3}))?"
_DATES: Final = (
    re.compile(rf"\b{_MONTH}\.?\s+(?:the\s+)?{_DAY}\b{_YEAR}"),
    re.compile(rf"\b{_DAY}\s+(?:of\s+)?{_MONTH}\b\.?{_YEAR}"),
    re.compile(r"(?<![\d-])(?P<year>[12]\d{3})[-/](?P<number>[01]?\d)[-/](?P<day>[0-3]?\d)(?![\d-])"),
    re.compile(r"(?<![\d.])(?P<day>[0-3]?\d)\.(?P<number>[01]?\d)\.(?P<year>[12]\d{3})(?![\d.]*\d)"),
)
_TIMES: Final = (
    re.compile(r"(?<![\d:.])(?P<hour>[0-2]?\d):(?P<minute>[0-5]\d)(?::[0-5]\d)?\s*(?P<half>[ap]\.?m\b)?(?![\d:]*\d)"),
    re.compile(r"(?<![\d:.])(?P<hour>1?\d)\s*(?P<half>[ap]\.?m)\b"),
    re.compile(r"(?<![\d:.])(?P<hour>[0-2]?\d)\s*(?:o'?clock|h\b|uhr\b)"),
    re.compile(r"\b(?:at|from|until|till|to|and)\s+(?P<hour>[0-2]?\d)\.(?P<minute>[0-5]\d)(?![\d.]*\d)"),
    re.compile(r"(?<![\w.,$€£])(?P<hour>[0-2]?\d)\.(?P<minute>[0-5]\d)(?=\s*(?:to|until|till|-)\s*\d)"),
    re.compile(r"(?<=\d)\s+(?:to|until|till)\s+(?P<open>[0-2]?\d)(?![\w:]|\.\d)"),
    re.compile(
        r"\b(?:at|from|until|till)\s+(?P<open>[0-2]?\d)(?=\s*(?:[,.;]|$|or\b|on\b|for\b|and\b|with\b|to\b|until\b))"
    ),
)
_DAYS_AHEAD: Final = {"today": 0, "tonight": 0, "tomorrow": 1}
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_ACCOUNT: Final = re.compile(r"(?<!\w)[+(]?[a-z]{0,4}\d[a-z\d]*+(?:[ ().-]{1,2}(?=[a-z]*\d)[a-z\d]++)*(?!\w)")
_ACCOUNT_TEXT: Final = re.compile(r"[+(]?[A-Za-z0-9][A-Za-z0-9 ().-]*")
_MIN_ACCOUNT_DIGITS: Final = 7
_WORD_TIMES: Final = {"noon": (12, 0), "midday": (12, 0), "midnight": (0, 0)}
_SMALL: Final = (
    *"zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen".split(" "),  # noqa: SIM905  a list would take a line for each word
    *("sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
)
_TENS: Final = {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}
_WORDS: Final = {word: number for number, word in enumerate(_SMALL)} | _TENS
_POWERS: Final = {"hundred": 100, "k": 1_000, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_NUMBER: Final = re.compile(
    r"[(\[{\"'\u201c\u2018<~\u2248=:]*(?:[a-z]+[:=])?(?P<sign>[-+\u2212]?)[$€£¥]?"
    r"(?P<digits>[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?)"
    r"(?P<unit>[%$€£¥]|°[a-z]?|[a-z]{1,10})?(?:/[a-z]+)?[)\]}\"'\u201d\u2019>,.;:!?\u2026]*"
)
"""A token that is a number, perhaps with a sign, a currency or a unit; digits inside a longer token are none."""
_ORDINALS: Final = frozenset({"st", "nd", "rd", "th"})
_OPAQUE: Final = ("://", "@", "\\", "www.", "#")
"""What makes a token an address or an id, whose digits say nothing else."""
_NEGATIONS: Final = frozenset({"not", "no", "never", "without", "avoid", "cannot", "dont", "doesnt", "isnt", "t"})
_NEGATED_WORDS: Final = 4
_DURATION: Final = re.compile(
    r"(?<![\w.])(?P<count>\d+(?:\.\d+)?|an?|half an|" + "|".join(_SMALL[1:]) + r"|thirty|forty|sixty|ninety)"
    r"[\s-]*(?P<unit>hours?|hrs?|h|minutes?|mins?|days?|weeks?)\b"
)
_UNIT_MINUTES: Final = {"h": 60, "m": 1, "d": 1440, "w": 10_080}
_MOMENT: Final = re.compile(
    r"(?P<date>[12]\d{3}-[01]\d-[0-3]\d)?"
    r"(?:[ T]?(?P<time>[0-2]\d:[0-5]\d)(?::[0-5]\d(?:\.\d+)?)?(?:Z|\+00:?00)?)?"
)
"""Another time zone would move the moment."""
_WHOLE_DAY: Final = frozenset({(0, 0), (23, 59)})
_MAX_DAYS: Final = 366
_MAX_DIGITS: Final = 30
_MAX_ITEMS: Final = 50_000
"""Of each kind; what is said after that counts as not said."""


class Moment(NamedTuple):
    """A date, a time of day, or both, as a tool takes it."""

    day: date | None
    time: tuple[int, int] | None

    @classmethod
    def read(cls, text: str) -> "Moment | None":
        """Return the moment that a text says in the form of ISO 8601, or `None`."""
        match = _MOMENT.fullmatch(text.strip())
        if match is None or (match["date"] is None and match["time"] is None):
            return None
        try:
            day = None if match["date"] is None else date.fromisoformat(match["date"])
        except ValueError:
            return None
        hour, minute = (None, None) if match["time"] is None else map(int, match["time"].split(":"))
        if hour is None or minute is None:
            return cls(day, None)
        return cls(day, (hour, minute)) if hour < 24 else None


class SaidDate(NamedTuple):
    """A date that a person said, perhaps without its year."""

    year: int | None
    month: int
    day: int


@dataclass(slots=True)
class Said:
    """What a person has said, understood."""

    numbers: set[Decimal] = field(default_factory=set[Decimal])
    dates: set[SaidDate] = field(default_factory=set[SaidDate])
    times: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    durations: set[int] = field(default_factory=set[int])
    """Minutes."""
    negated: set[str] = field(default_factory=set[str])
    """Words after a negation."""
    accounts: set[str] = field(default_factory=set[str])
    """Account and phone numbers without the spaces and marks between their groups."""
    today: Callable[[], date] = date.today
    """The day on which a text is said."""

    def add(self, text: str) -> None:
        """Understand a text, in which every run of white space is one space."""
        tokens = fold(text).split(" ")
        folded = left = " ".join("|" if any(mark in token for mark in _OPAQUE) else token for token in tokens)
        words = _LETTERS.findall(folded)
        self._negate(words)
        for pattern in _DATES:
            _extend(self.dates, map(_read_date, pattern.finditer(folded)))
            left = pattern.sub(" | ", left)
        for pattern in _TIMES:
            for match in pattern.finditer(left):
                _extend(self.times, _read_times(match))
            left = pattern.sub(" | ", left)
        _extend(self.durations, map(_read_duration, _DURATION.finditer(folded)))
        # The digits of a date or a time do not count as an amount.
        _extend(self.numbers, _read_numbers(_HYPHEN.sub(" ", left).split()))
        _extend(self.times, (_WORD_TIMES[word] for word in words if word in _WORD_TIMES))
        _extend(self.dates, self._find_days(words))
        groups = (_strip_marks(match[0]) for match in _ACCOUNT.finditer(fold(text)))
        _extend(self.accounts, (each for each in groups if sum(map(str.isdigit, each)) >= _MIN_ACCOUNT_DIGITS))

    def _find_days(self, words: list[str]) -> Iterator[SaidDate]:
        """Iterate over the days that words such as `tomorrow` and `Friday` mean on the day on which they are said."""
        today = self.today()
        for place, word in enumerate(words):
            if word in _DAYS_AHEAD:
                is_later = word == "tomorrow" and words[max(0, place - 2) : place] == ["day", "after"]
                yield _to_said_date(today + timedelta(days=_DAYS_AHEAD[word] + is_later))
            elif word in _WEEKDAYS:
                ahead = (_WEEKDAYS.index(word) - today.weekday() - 1) % 7 + 1
                is_next = place > 0 and words[place - 1] == "next"
                for days in (ahead, ahead + 7) if is_next else (ahead,):
                    yield _to_said_date(today + timedelta(days=days))

    def has_account(self, text: str) -> bool:
        """Return whether an account or phone number was said, with whatever marks between its groups."""
        return _ACCOUNT_TEXT.fullmatch(text) is not None and _strip_marks(fold(text)) in self.accounts

    def has_number(self, number: "float | str") -> bool:
        """Return whether a number was said."""
        try:
            return Decimal(repr(number) if isinstance(number, float) else number) in self.numbers
        except (ArithmeticError, ValueError):  # also a number with too many digits
            return False

    def has_flag(self, name: str, user: Searchable) -> bool:
        """Return whether every word in the name of a switch was said, and none after a negation."""
        words = _LETTERS.findall(fold(name))
        return bool(words) and all(word not in self.negated and user.has_word(word) for word in words)

    def _negate(self, words: list[str]) -> None:
        for place, word in enumerate(words):
            if word in _NEGATIONS:
                _extend(self.negated, words[place + 1 : place + 1 + _NEGATED_WORDS])

    def has_moment(self, moment: Moment, starts: "tuple[Moment, ...]" = ()) -> bool:
        """Return whether a moment was said: its date and its time, or how long after a start that was said it is."""
        if self._has_day(moment.day) and self._has_time(moment):
            return True
        return any(self._is_after(moment, start) for start in starts)

    def _has_day(self, day: date | None) -> bool:
        if day is None:
            return True
        return SaidDate(day.year, day.month, day.day) in self.dates or SaidDate(None, day.month, day.day) in self.dates

    def _has_time(self, moment: Moment) -> bool:
        time = moment.time
        return time is None or time in self.times or (moment.day is not None and time in _WHOLE_DAY)

    def _is_after(self, end: Moment, start: Moment) -> bool:
        if start == end or not (self._has_day(start.day) and self._has_time(start)):
            return False
        if start.day is None or end.day is None or (start.time is None) is not (end.time is None):
            return False
        length = datetime.combine(end.day, _clock(end)) - datetime.combine(start.day, _clock(start))
        return timedelta() < length < timedelta(days=_MAX_DAYS) and length // timedelta(minutes=1) in self.durations


ItemT = TypeVar("ItemT")
_HYPHEN: Final = re.compile(r"(?<=[a-z])-(?=[a-z])")
_LETTERS: Final = re.compile(r"[^\W\d_]+")


def _extend(items: set[ItemT], more: "Iterable[ItemT | None]") -> None:
    for each in more:
        if len(items) >= _MAX_ITEMS:
            return
        if each is not None:
            items.add(each)


def _read_numbers(tokens: list[str]) -> Iterator[Decimal]:
    """Iterate over the numbers in digits and in words; a run such as `two hundred and fifty` is one number."""
    total: Decimal | None = None
    part = Decimal(0)
    for token in (*tokens, "|"):
        word = token.strip("()[]{}\"',.;:!?\u201c\u201d\u2018\u2019")
        value, power = _read_number(token), _POWERS.get(word)
        if value is None and word in _WORDS:
            value = Decimal(_WORDS[word])
            if total is not None and (part % 100 == 0 or (part % 10 == 0 and value < 10)) and part:
                part += value
                continue
        elif power is not None:
            part = (part or Decimal(1)) * power if total is not None else Decimal(power)
            total = total or Decimal(0)
            if power > 100:
                total, part = total + part, Decimal(0)
            continue
        elif value is None and word == "and" and total is not None and part % 100 == 0:
            continue
        if total is not None:
            yield total + part
        total, part = (None, Decimal(0)) if value is None else (Decimal(0), value)


def _read_number(token: str) -> Decimal | None:
    match = _NUMBER.fullmatch(token) if len(token) <= 2 * _MAX_DIGITS else None
    if match is None or match["unit"] in _ORDINALS:
        return None
    number = Decimal(match["digits"].replace(",", "")) * _POWERS.get(match["unit"] or "", 1)
    return -number if match["sign"] in ("-", "\u2212") else number


def _clock(moment: Moment) -> time:
    return time(*(moment.time or (0, 0)))


def _read_date(match: "re.Match[str]") -> SaidDate | None:
    parts = match.groupdict()
    name, year = parts.get("month"), parts.get("year")
    month = int(parts.get("number") or 0) if name is None else _find_month(name)
    found = SaidDate(None if year is None else int(year), month, int(parts["day"]))
    try:
        date(found.year or 2024, found.month, found.day)
    except ValueError:
        return None
    return found


def _find_month(name: str) -> int:
    return next(number for number, full in enumerate(_MONTHS, start=1) if full.startswith(name[:3]))


def _read_times(match: "re.Match[str]") -> Iterator[tuple[int, int]]:
    """Iterate over the times that a person may mean: `at 3` is in the night or in the afternoon."""
    parts = match.groupdict()
    half, is_open = parts.get("half"), parts.get("open") is not None
    hour, minute = int(parts.get("open") or parts["hour"]), int(parts.get("minute") or 0)
    if half is not None:
        if not 1 <= hour <= 12:
            return
        hour = hour % 12 + (12 if half.startswith("p") else 0)
    if hour < 24 and minute < 60:
        yield hour, minute
        if is_open and 1 <= hour < 12:
            yield hour + 12, minute


def _to_said_date(day: date) -> SaidDate:
    return SaidDate(day.year, day.month, day.day)


def _strip_marks(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def _read_duration(match: "re.Match[str]") -> int:
    count = match["count"]
    amount = 0.5 if count == "half an" else 1.0 if count in {"a", "an"} else float(_WORDS.get(count, count))
    return round(amount * _UNIT_MINUTES[match["unit"][0]])
