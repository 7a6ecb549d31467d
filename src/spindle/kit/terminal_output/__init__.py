"""What a terminal prints, shortened by those who know its shape; open `terminal.py` first."""
