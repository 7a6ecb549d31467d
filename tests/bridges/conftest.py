"""Shared by the tests of the bridges: the corpus of tool schemas, and clients of the SDKs that are made quickly."""

from pathlib import Path

import pytest

from benchmarks.corpus import CorpusTool, corpus
from tests.authorities import trust_one_authority

__all__ = ["corpus_tools", "trust_one_authority", "whole_corpus"]


@pytest.fixture(scope="session")
def whole_corpus(shared_data: Path) -> list[CorpusTool]:
    """Every tool of the public corpus."""
    return corpus(shared_data / "tools")


@pytest.fixture(scope="session", params=["part", pytest.param("whole", marks=pytest.mark.slow)])
def corpus_tools(request: pytest.FixtureRequest, whole_corpus: list[CorpusTool]) -> list[CorpusTool]:
    """Every eighth tool of the public corpus, and all of them in `make test-all`."""
    return whole_corpus[::8] if request.param == "part" else whole_corpus
