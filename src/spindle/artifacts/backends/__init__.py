"""Backends of artifacts on disk, in memory, in object stores and in DuckDB, one technology per module."""
