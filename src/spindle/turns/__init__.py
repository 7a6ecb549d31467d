"""One turn, from its first message to its report; open `runner.py` first."""
