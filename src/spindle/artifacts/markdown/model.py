"""The result types of a Markdown artifact's queries; all lines are numbered from 0."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading and the lines of its section, up to the next heading of the same or a smaller depth."""

    depth: int
    text: str
    start_line: int
    end_line: int
    """The last line, inclusive."""


@dataclass(frozen=True, slots=True)
class Section:
    """The content under a heading."""

    depth: int
    heading: str
    heading_line: int
    body_start_line: int
    body_end_line: int
    """The last line, inclusive; smaller than `body_start_line` if there is no body."""


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """A fenced code block, including its fences."""

    lang: str | None
    start_line: int
    end_line: int
    """The last line, inclusive; an unclosed block ends with the text."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link in any syntax: inline, by reference, in angle brackets or bare."""

    text: str
    url: str
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """An image, inline or by reference."""

    alt: str
    url: str
    title: str | None = None
