"""Where sync handlers run: daemon threads (`threads.py`) or killable processes (`processes.py`, `child.py`)."""
