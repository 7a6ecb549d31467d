"""Gives test files to the workers of xdist as it does itself, with less work for the process that prints."""

from collections.abc import Sequence
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController


class Collection(list[str]):
    """The names of all tests. xdist asks for the place of each, and a list would look through all others."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self._places = {name: place for place, name in enumerate(names)}

    def index(self, value: str, *_: Any) -> int:
        return self._places[value]


class FileScheduling(LoadFileScheduling):
    """Forget the files that are done: xdist counts all tests that a worker was given after each of them."""

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        if node in self.registered_collections:
            self.registered_collections[node] = Collection(collection)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        super().mark_test_complete(node, item_index, duration)
        files = self.assigned_work[node]
        file = self._split_scope(self.registered_collections[node][item_index])
        if all(files[file].values()):
            del files[file]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    return FileScheduling(config, log) if config.getoption("dist") == "loadfile" else None
