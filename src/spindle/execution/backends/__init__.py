"""Where the bodies of calls run: own threads (`threads.py`), or processes that can be killed (`processes.py`)."""
