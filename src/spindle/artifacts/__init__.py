"""Large outputs, spooled in full and read in parts; open `artifact.py` first."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.artifacts.artifact import Artifact as Artifact
    from spindle.artifacts.backends.files import FileStore as FileStore
    from spindle.artifacts.backends.memory import BytesReader as BytesReader
    from spindle.artifacts.backends.memory import MemoryStore as MemoryStore
    from spindle.artifacts.backends.objects import ObjectStore as ObjectStore
    from spindle.artifacts.forge import ReaderTool as ReaderTool
    from spindle.artifacts.forge import forge_all as forge_all
    from spindle.artifacts.grep import compile_pattern as compile_pattern
    from spindle.artifacts.json_artifact import JsonArtifact as JsonArtifact
    from spindle.artifacts.line_view import LineView as LineView
    from spindle.artifacts.markdown.artifact import MarkdownArtifact as MarkdownArtifact
    from spindle.artifacts.queries import query as query
    from spindle.artifacts.readers import BLOCK_BYTES as BLOCK_BYTES
    from spindle.artifacts.readers import IndexedReader as IndexedReader
    from spindle.artifacts.readers import Match as Match
    from spindle.artifacts.readers import Search as Search
    from spindle.artifacts.readers import SpoolReader as SpoolReader
    from spindle.artifacts.spool import Spool as Spool
    from spindle.artifacts.table_artifact import TableArtifact as TableArtifact
else:
    __getattr__, __dir__ = open_door(__name__)
