"""How many examples a property is tried with: few in `make test`, all of them in `make test-all`."""

import os

from hypothesis import HealthCheck, settings

_THOROUGH_EXAMPLES = 100
_FEWEST_EXAMPLES = 5


def register_profiles() -> None:
    """Register the profiles `quick`, which is the default, and `thorough`: `pytest --hypothesis-profile=thorough`."""
    # On CI the same examples each time: a red run means a change. A developer's runs go on looking for new ones.
    common = settings(
        deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=bool(os.environ.get("CI"))
    )
    settings.register_profile("thorough", parent=common, max_examples=_THOROUGH_EXAMPLES)
    settings.register_profile("quick", parent=common, max_examples=_THOROUGH_EXAMPLES // 10)
    settings.load_profile("quick")


def examples(thorough: int) -> int:
    """Return the `max_examples` of a property that deserves another number than most: scaled as the profile is."""
    assert settings.default is not None
    return max(_FEWEST_EXAMPLES, thorough * settings.default.max_examples // _THOROUGH_EXAMPLES)
