"""What a Markdown artifact answers with; all lines count from 0."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading and the lines it governs: up to the next one of its depth or above."""

    depth: int
    text: str
    start_line: int
    end_line: int
    """The last line, included."""


@dataclass(frozen=True, slots=True)
class Section:
    """What stands under a heading."""

    depth: int
    heading: str
    heading_line: int
    body_start_line: int
    body_end_line: int
    """The last line, included; before `body_start_line` when there is no body."""


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """A fenced block of code, its fences included."""

    lang: str | None
    start_line: int
    end_line: int
    """The last line, included; an unclosed block ends with the text."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link, in any spelling: inline, by reference, in angle brackets or bare."""

    text: str
    url: str
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """An image, inline or by reference."""

    alt: str
    url: str
    title: str | None = None
