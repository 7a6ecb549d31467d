"""The tasks of each domain: what a user writes, the calls of an honest model, and the goal."""
