"""Readers of media outside the process; `files.py` reads local files."""
