"""Where a journal is kept: in memory, or in a SQLite file that one thread owns; start with `sqlite.py`."""
