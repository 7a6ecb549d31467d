"""Where the bytes of media lie outside the process; `files.py` reads the local disk."""
