"""Tools and the registry that holds them; open `tool.py` first."""
