"""How each library is given the same calls; open `driving.py` first, then any other file: one library each.

An adapter runs in an environment of its own, which has its library and nothing of ours but
`examples.hostile_calls.cases`, a file of plain functions. It prints one line of JSON.
"""
