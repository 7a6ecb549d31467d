"""Shared by the tests of the bridges: clients of the SDKs are made quickly."""

from tests.authorities import trust_one_authority

__all__ = ["trust_one_authority"]
