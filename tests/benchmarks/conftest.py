"""Shared by the tests of the benchmarks: what pytest froze stays frozen."""

import gc

import pytest


@pytest.fixture(autouse=True)
def keep_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignore `gc.unfreeze`: each collection after it looks at a million objects of other tests."""
    monkeypatch.setattr(gc, "unfreeze", lambda: None)
