"""Bridges to model APIs and agent frameworks.

Start at `definitions.py` (what a model is shown), then the package of any provider, such as `openai`.
"""

from spindle.doors import open_door

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from spindle.bridges.definitions import Spec as Spec
    from spindle.bridges.definitions import build as build
    from spindle.bridges.dialects import ALL as ALL
    from spindle.bridges.dialects import Dialect as Dialect
    from spindle.bridges.model_callback import Retries as Retries
    from spindle.bridges.price import price_tool as price_tool
    from spindle.bridges.provider_limits import Rules as Rules
    from spindle.bridges.schema_lowering.lowering import Lowered as Lowered
    from spindle.bridges.schema_lowering.lowering import lower as lower
    from spindle.bridges.system_prompt import build_system_prompt as build_system_prompt
else:
    __getattr__, __dir__ = open_door(__name__)
