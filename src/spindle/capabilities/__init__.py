"""What a tool may reach, declared on the tool; open `declare.py` first."""
