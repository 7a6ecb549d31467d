"""Ready-made tools and the reducers that know their output; open `reducers.py` first."""
