"""The files capability: the paths a tool may read and write, and the disk backend; open `paths.py` first."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.capabilities.files.backend import FilesBackend as FilesBackend
    from spindle.capabilities.files.paths import MAX_FILES as MAX_FILES
    from spindle.capabilities.files.paths import MAX_NAME_BYTES as MAX_NAME_BYTES
    from spindle.capabilities.files.paths import MAX_PATH_BYTES as MAX_PATH_BYTES
    from spindle.capabilities.files.paths import NOTHING as NOTHING
    from spindle.capabilities.files.paths import Access as Access
    from spindle.capabilities.files.paths import DirEntry as DirEntry
    from spindle.capabilities.files.paths import Entries as Entries
    from spindle.capabilities.files.paths import FileKind as FileKind
    from spindle.capabilities.files.paths import Files as Files
    from spindle.capabilities.files.paths import FileStat as FileStat
    from spindle.capabilities.files.paths import FileVersion as FileVersion
    from spindle.capabilities.files.paths import Names as Names
    from spindle.capabilities.files.paths import OneWay as OneWay
    from spindle.capabilities.files.paths import Place as Place
    from spindle.capabilities.files.paths import Places as Places
    from spindle.capabilities.files.paths import ReadTracker as ReadTracker
    from spindle.capabilities.files.paths import SessionFile as SessionFile
    from spindle.capabilities.files.paths import check_new_names as check_new_names
    from spindle.capabilities.files.paths import is_draft as is_draft
    from spindle.capabilities.files.paths import parse_path as parse_path
    from spindle.capabilities.files.paths import shown as shown
else:
    __getattr__, __dir__ = open_door(__name__)
