"""Helpers for tests and examples, shipped; open `scripted.py` first."""

from spindle.testing.scripted import ScriptedModel as ScriptedModel
