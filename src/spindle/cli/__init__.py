"""What is run from a terminal; open `demo.py` first."""
