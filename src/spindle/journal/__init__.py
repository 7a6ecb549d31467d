"""The durable record of calls: an intent before each, an outcome after; start with `journal.py`."""
