"""Implementations of `RecordStore` (see `records.py`): in memory and in SQLite."""
