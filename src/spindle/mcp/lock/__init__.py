"""The lock of upstream definitions: what servers listed when a person accepted it, and what they list now.

Open `comparison.py` first: it decides what counts as changed, renamed or new. `quarantine.py` withholds it.
"""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.mcp.lock.comparison import DefinitionChange as DefinitionChange
    from spindle.mcp.lock.comparison import FactChange as FactChange
    from spindle.mcp.lock.comparison import ServerChanges as ServerChanges
    from spindle.mcp.lock.comparison import accept_changes as accept_changes
    from spindle.mcp.lock.comparison import change_to_json as change_to_json
    from spindle.mcp.lock.comparison import compare_definitions as compare_definitions
    from spindle.mcp.lock.comparison import compare_servers as compare_servers
    from spindle.mcp.lock.definitions import KINDS as KINDS
    from spindle.mcp.lock.definitions import DefinitionKind as DefinitionKind
    from spindle.mcp.lock.definitions import Listing as Listing
    from spindle.mcp.lock.definitions import LockedDefinition as LockedDefinition
    from spindle.mcp.lock.lock_file import FILE_NAME as FILE_NAME
    from spindle.mcp.lock.lock_file import LockedServer as LockedServer
    from spindle.mcp.lock.lock_file import LockFile as LockFile
    from spindle.mcp.lock.origin import describe_origin as describe_origin
    from spindle.mcp.lock.quarantine import CheckedListing as CheckedListing
    from spindle.mcp.lock.quarantine import DefinitionGuard as DefinitionGuard
    from spindle.mcp.lock.quarantine import LockPolicy as LockPolicy
    from spindle.mcp.lock.quarantine import QuarantineWarning as QuarantineWarning
    from spindle.mcp.lock.quarantine import WithheldDefinition as WithheldDefinition
    from spindle.mcp.lock.word_diff import DiffPiece as DiffPiece
    from spindle.mcp.lock.word_diff import TextChange as TextChange
    from spindle.mcp.lock.word_diff import diff_definitions as diff_definitions
    from spindle.mcp.lock.word_diff import diff_words as diff_words
    from spindle.mcp.lock.word_diff import reveal_hidden as reveal_hidden
else:
    __getattr__, __dir__ = open_door(__name__)
