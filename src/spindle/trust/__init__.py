"""Trust of tool output: labels, fences around untrusted text, and the sanitiser; open `envelope.py` first."""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.trust.definitions import DefinitionTexts as DefinitionTexts
    from spindle.trust.definitions import sanitise_definition as sanitise_definition
    from spindle.trust.definitions import sanitise_text as sanitise_text
    from spindle.trust.envelope import fence as fence
    from spindle.trust.envelope import render_outcome as render_outcome
    from spindle.trust.envelope import render_record as render_record
    from spindle.trust.labels import Label as Label
    from spindle.trust.labels import SinkPolicy as SinkPolicy
    from spindle.trust.labels import derived_trust as derived_trust
    from spindle.trust.labels import join as join
    from spindle.trust.labels import label_of as label_of
else:
    __getattr__, __dir__ = open_door(__name__)
