"""OpenAI's Chat Completions and Responses APIs, and other servers compatible with them."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.bridges.openai.callbacks import chat as chat
    from spindle.bridges.openai.callbacks import responses as responses
    from spindle.bridges.openai.server_quirks import QUIRKS as QUIRKS
    from spindle.bridges.openai.server_quirks import ServerQuirk as ServerQuirk
else:
    __getattr__, __dir__ = open_door(__name__)
