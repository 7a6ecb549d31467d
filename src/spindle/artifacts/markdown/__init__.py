"""Markdown artifacts: headings, sections, code blocks, links and images of a large document."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.artifacts.markdown.artifact import MarkdownArtifact as MarkdownArtifact
    from spindle.artifacts.markdown.parse import MarkdownParser as MarkdownParser
else:
    __getattr__, __dir__ = open_door(__name__)
