"""Shared by every test: both event loops, and the place of the public test data."""

import gc
import logging
import os
import re
import signal
import sys
from collections.abc import Generator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from _pytest import fixtures as pytest_fixtures
from _pytest import logging as pytest_logging
from _pytest.compat import getfuncargnames
from _pytest.pathlib import import_path
from _pytest.runner import runtestprotocol

from tests.fuzzing import register_profiles

pytest_plugins = ["tests.journal.postgres_fixtures", "tests.scheduling"]

HERE = Path(__file__).resolve().parent

ONE_LOOP_PLACES = {
    *("artifacts", "bridges", "capabilities", "contracts", "inspector", "kit", "media", "telemetry", "tools"),
    *("benchmarks", "engines", "examples", "execution/backends", "journal/backends", "mcp", "turns/backends"),
    *("execution/test_journal_asked_again.py", "execution/test_journal_in_batches.py", "execution/test_resume.py"),
    *("execution/test_tickets.py", "execution/test_transport.py", "turns/test_resumption.py"),
    *("execution/test_admission.py", "execution/test_admission_repair.py", "execution/test_arguments_gate.py"),
    *("execution/test_fit_results.py", "execution/test_results.py", "execution/test_results_failures.py"),
    *("execution/test_results_redacting.py", "journal/test_entries.py", "turns/test_remote.py"),
    *("turns/test_suspension.py", "turns/test_turn_settings.py"),
}
"""Tests that only await what others start, or a process or a disk each: in `make test` on asyncio, in `make test-all`
on trio too. The rest of the core has both in `make test`: tests/execution, tests/turns and tests/journal.
"""

LONG_FILES = (
    "cli/test_hostile_inputs.py",
    "mcp/server/test_serve_load.py",
    "mcp/test_conformance.py",
    "engines/test_temporal.py",
    "engines/test_dbos.py",
    "engines/test_embedded.py",
    "house/test_docs_types.py",
    "house/test_user_types.py",
    "house/test_site.py",
    "mcp/server/test_serve_chaos.py",
    "benchmarks/test_peers.py",
    "journal/backends/test_sqlite_recovery.py",
    "journal/backends/test_postgres_processes.py",
    "execution/test_crashes.py",
    "execution/test_event_loop.py",
    "turns/test_resumption.py",
)
"""Files that run first: one that takes minutes at the end would leave the other processes without work."""

SLOW_FILE = re.compile(r"^pytestmark = \[?(.*[ ,])?pytest\.mark\.slow\b", re.MULTILINE)

register_profiles()

# Started in the background, or by nohup, the tests have signals ignored, and programs under test would inherit that.
for _each, _default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_each) is signal.SIG_IGN:
        signal.signal(_each, _default)


class RootCatchingLogs(pytest_logging.catching_logs[logging.Handler]):
    """Attach pytest's handler to the root logger only, for `caplog` and the logs of a test that failed.

    pytest looks for loggers that do not propagate too, six times a test, among the thousands that SDKs create.
    """

    def __enter__(self) -> logging.Handler:
        if self.level is not None:
            return super().__enter__()
        root = logging.getLogger()
        root.addHandler(self.handler)
        self.attached_loggers.append(root)
        return self.handler


pytest_logging.catching_logs = RootCatchingLogs


def _list_parameters_of_fixture(function: Any, *, name: str = "", cls: type | None = None) -> tuple[str, ...]:
    """Skip the `request` that pytest creates for each test: it has none, and inspecting it takes part of the set-up."""
    return () if name == "request" else getfuncargnames(function, name=name, cls=cls)


pytest_fixtures.__dict__["getfuncargnames"] = _list_parameters_of_fixture


gc.disable()  # until all modules are loaded: what they hold is not garbage, and looking for it takes seconds


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Share the work where nothing is compiled yet: other workers than the first begin with other modules.

    Each stops where it meets another one, and collects as usual what all have compiled by then.
    """
    config = session.config
    if config.args_source is config.ArgsSource.TESTPATHS and not sys.dont_write_bytecode:
        for path in _list_modules_to_load_first(os.environ.get("PYTEST_XDIST_WORKER")):
            if any(path.parent.glob(f"__pycache__/{path.stem}.*-pytest-*.pyc")):
                break
            if not pytest_ignore_collect(path, config):
                _load(path, config)
    return (yield)


def _list_modules_to_load_first(worker: str | None) -> list[Path]:
    if worker not in {"gw1", "gw2"}:
        return []
    paths = sorted(HERE.rglob("test_*.py"))
    return paths[::-1] if worker == "gw1" else paths[len(paths) // 3 :]


def _load(path: Path, config: pytest.Config) -> None:
    with suppress(Exception, pytest.skip.Exception):  # the collection reports it
        import_path(path, mode="importlib", root=config.rootpath, consider_namespace_packages=False)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files of which every test is slow, for `make test`: they import frameworks, which takes seconds."""
    if config.option.markexpr != "not slow" or collection_path.suffix != ".py":
        return None
    return True if SLOW_FILE.search(collection_path.read_text(encoding="utf-8")) else None


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("fuzz")
        if _runs_on_trio(item) and (item.get_closest_marker("one_loop") or _needs_one_loop(item.path)):
            item.add_marker("slow")
    items.sort(key=lambda item: _get_turn(item.path))


@cache
def _get_turn(path: Path) -> int:
    place = path.relative_to(HERE).as_posix()
    return LONG_FILES.index(place) if place in LONG_FILES else len(LONG_FILES)


@cache
def _needs_one_loop(path: Path) -> bool:
    """Return whether a file, or a folder it lies in, is one of `ONE_LOOP_PLACES`."""
    file = path.relative_to(HERE)
    return not ONE_LOOP_PLACES.isdisjoint(place.as_posix() for place in (file, *file.parents))


def _runs_on_trio(item: pytest.Item) -> bool:
    return getattr(getattr(item, "callspec", None), "params", {}).get("anyio_backend") == "trio"


def pytest_collection_finish(session: pytest.Session) -> None:
    # All conftest files are loaded: the hooks that a file has stay the same. pytest looks them up ten times a test.
    session.gethookproxy = cache(session.gethookproxy)
    gc.freeze()  # nor is it from now on
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Send no names and markers of tests that passed to the process that prints: nothing reads them."""
    report = yield
    if report.passed:
        report.keywords = {}
    return report


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Send that process one report of a test that passed, where pytest would send five messages."""
    if not hasattr(item.config, "workerinput"):  # no worker of xdist
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if nextitem is None or nextitem.path != item.path:
        # Nor is what is alive between two modules: SDKs that tests have loaded, and reports that pytest keeps.
        gc.collect()
        gc.freeze()


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The public test data; tests that need it skip loudly where it is absent."""
    place = Path(os.environ.get("SPINDLE_DATA", HERE.parent.parent / "shared" / "data"))
    if not place.is_dir():
        pytest.skip(f"the public test data is not at {place}; set SPINDLE_DATA to its folder")
    return place
