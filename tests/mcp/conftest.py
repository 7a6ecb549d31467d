"""Shared by the tests of MCP: HTTP clients are made quickly."""

from tests.authorities import trust_one_authority

__all__ = ["trust_one_authority"]
