"""Ratios to a floor measured in the same run; open `harness.py` first, run it with `make bench`."""
