"""Calls in, exactly one outcome each out; open `executor.py` first."""
