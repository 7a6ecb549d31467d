"""Large outputs, kept whole and read in parts; open `artifact.py` first."""
