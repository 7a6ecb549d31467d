"""The secrets capability: secrets by name and the redactor that masks them; open `secret.py` first."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.capabilities.secrets.backend import SecretsBackend as SecretsBackend
    from spindle.capabilities.secrets.backend import from_env as from_env
    from spindle.capabilities.secrets.backend import from_file as from_file
    from spindle.capabilities.secrets.encodings import build_literals as build_literals
    from spindle.capabilities.secrets.encodings import build_patterns as build_patterns
    from spindle.capabilities.secrets.encodings import fold as fold
    from spindle.capabilities.secrets.encodings import normalize as normalize
    from spindle.capabilities.secrets.encodings import unfold as unfold
    from spindle.capabilities.secrets.secret import MAX_SECRET_CHARS as MAX_SECRET_CHARS
    from spindle.capabilities.secrets.secret import Redactor as Redactor
    from spindle.capabilities.secrets.secret import Secret as Secret
    from spindle.capabilities.secrets.secret import Secrets as Secrets
    from spindle.capabilities.secrets.secret import may_read as may_read
    from spindle.capabilities.secrets.stream import MaskedStream as MaskedStream
    from spindle.text import MASK as MASK
else:
    __getattr__, __dir__ = open_door(__name__)
