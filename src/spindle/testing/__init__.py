"""Helpers for tests and examples, shipped; open `scripted.py` first."""
