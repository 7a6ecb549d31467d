"""Information flow: labels of results, roles of arguments, and the policy that asks where a value is not the user's.

Open `policy.py` first.
"""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.trust.decisions import FlowDecision as FlowDecision
    from spindle.trust.flow.ledger import FlowLedger as FlowLedger
    from spindle.trust.flow.ledger import Source as Source
    from spindle.trust.flow.policy import FlowCall as FlowCall
    from spindle.trust.flow.policy import FlowPolicy as FlowPolicy
    from spindle.trust.flow.roles import ROLE_KEY as ROLE_KEY
    from spindle.trust.flow.roles import Content as Content
    from spindle.trust.flow.roles import Free as Free
    from spindle.trust.flow.roles import Leaf as Leaf
    from spindle.trust.flow.roles import Produces as Produces
    from spindle.trust.flow.roles import Ref as Ref
    from spindle.trust.flow.roles import Role as Role
    from spindle.trust.flow.roles import Setting as Setting
    from spindle.trust.flow.roles import Target as Target
    from spindle.trust.flow.roles import ToolFlow as ToolFlow
    from spindle.trust.flow.roles import read_role as read_role
    from spindle.trust.flow.sessions import FlowSessions as FlowSessions
else:
    __getattr__, __dir__ = open_door(__name__)
