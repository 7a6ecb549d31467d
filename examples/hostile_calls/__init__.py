"""Six hostile calls in one reply of a model; run it with `make demo`, and read `demonstration.py` first."""
