"""How many examples a property is tried with: few in `make test`, all of them in `make test-all`."""

import os
from collections.abc import Iterator
from random import Random

from hypothesis import HealthCheck, settings
from hypothesis.internal import charmap
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from hypothesis.internal.intervalsets import IntervalSet

_THOROUGH_EXAMPLES = 100
_FEWEST_EXAMPLES = 5


def register_profiles() -> None:
    """Register the profiles `quick`, which is the default, and `thorough`: `pytest --hypothesis-profile=thorough`."""
    # A red quick run, or one of CI, means a change: these try the same examples each time. `make test-all` of a
    # developer goes on looking for new ones.
    common = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    is_repeatable = bool(os.environ.get("CI"))
    settings.register_profile("thorough", common, max_examples=_THOROUGH_EXAMPLES, derandomize=is_repeatable)
    settings.register_profile("quick", common, max_examples=_THOROUGH_EXAMPLES // 10, derandomize=True)
    settings.load_profile("quick")
    providers.__dict__["_get_local_constants"] = _get_local_constants
    charmap.intervals_from_codec = _find_characters


_try_characters = charmap.intervals_from_codec


def _find_characters(codec_name: str) -> tuple[IntervalSet, IntervalSet]:
    """Return the characters that a codec encodes, and those of them that it decodes to others.

    hypothesis tries all of Unicode, in seconds of each worker where `.hypothesis` is new; for UTF-8 they are known.
    """
    if codec_name != "utf-8":
        return _try_characters(codec_name)
    return IntervalSet([(0, 0xD7FF), (0xE000, 0x10FFFF)]), IntervalSet([])


_find_constants = providers.__dict__["_get_local_constants"]
_no_constants = Constants()


def _get_local_constants() -> Constants:
    """Return the constants of our modules, which hypothesis mixes into its values, but in a quick run.

    Few examples meet hardly any of them, and checking for each strategy which of the thousands it permits takes a
    quarter of the time; finding them takes seconds more where `.hypothesis` is new.
    """
    return _no_constants if settings.get_current_profile_name() == "quick" else _find_constants()


def examples(thorough: int) -> int:
    """Return the `max_examples` of a property that deserves another number than most: scaled as the profile is."""
    assert settings.default is not None
    return max(_FEWEST_EXAMPLES, thorough * settings.default.max_examples // _THOROUGH_EXAMPLES)


def draw_seeds(count: int) -> Iterator[int]:
    """Yield seeds for cases that are drawn from one number each: hypothesis would take a hundred times as long."""
    is_repeatable = settings.get_current_profile_name() == "quick" or os.environ.get("CI")
    random = Random(0) if is_repeatable else Random()
    for _ in range(count):
        yield random.getrandbits(64)
