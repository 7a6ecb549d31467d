"""The worlds of the tasks: a small state in memory, and real tools that read and change it."""
