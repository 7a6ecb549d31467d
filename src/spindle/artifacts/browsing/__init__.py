"""Bounded pages of artifacts for people who look at them: any place of any size at once; open `lines.py` first."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.artifacts.browsing.content import ContentFacts as ContentFacts
    from spindle.artifacts.browsing.content import describe_content as describe_content
    from spindle.artifacts.browsing.content import open_content as open_content
    from spindle.artifacts.browsing.json_tree import JsonMembers as JsonMembers
    from spindle.artifacts.browsing.json_tree import JsonPlace as JsonPlace
    from spindle.artifacts.browsing.json_tree import JsonTree as JsonTree
    from spindle.artifacts.browsing.json_tree import JsonTreeNode as JsonTreeNode
    from spindle.artifacts.browsing.json_tree import ScanLimits as ScanLimits
    from spindle.artifacts.browsing.lines import BytePage as BytePage
    from spindle.artifacts.browsing.lines import LinePage as LinePage
    from spindle.artifacts.browsing.lines import LinePiece as LinePiece
    from spindle.artifacts.browsing.lines import PageLine as PageLine
    from spindle.artifacts.browsing.lines import find_line as find_line
    from spindle.artifacts.browsing.lines import read_bytes as read_bytes
    from spindle.artifacts.browsing.lines import read_page as read_page
    from spindle.artifacts.browsing.lines import read_piece as read_piece
    from spindle.artifacts.browsing.listing import SpoolListing as SpoolListing
    from spindle.artifacts.browsing.listing import SpoolPage as SpoolPage
    from spindle.artifacts.browsing.markdown_pages import MarkdownPages as MarkdownPages
    from spindle.artifacts.browsing.search import SearchLimits as SearchLimits
    from spindle.artifacts.browsing.search import SearchPage as SearchPage
    from spindle.artifacts.browsing.search import SearchRow as SearchRow
    from spindle.artifacts.browsing.search import search_page as search_page
else:
    __getattr__, __dir__ = open_door(__name__)
