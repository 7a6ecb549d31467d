"""Tasks of our own, in eleven domains, that measure how often the flow policy asks; open `scenario.py` first.

The tools, the tasks and the calls for which a question is due were written from the users' point of view, before the
policy was run on them. `python -m benchmarks.flow_tasks` prints the table.
"""
