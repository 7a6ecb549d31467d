"""Places where the records of turns are kept; the port is `RecordStore` in `records.py`."""
