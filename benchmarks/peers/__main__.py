"""`python -m benchmarks.peers`: the six hostile calls and the speed of a batch, through Spindle and its peers.

Each library has an environment of its own, made here on first use, and an adapter in `adapters/` that is run in
it. A library that cannot be installed or driven is reported with the reason.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from benchmarks.peers.adapters.driving import Line, Single
from benchmarks.peers.table import show

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".peers"
OURS = "spindle"
LIBRARIES = (
    OURS,
    "pydantic-ai-slim",
    "agent-framework-core",
    "openai-agents",
    "langgraph",
    "fastmcp",
    "toolregistry",
)
INSTALL_SECONDS, ADAPTER_SECONDS = 300, 180


class NotMeasured(Exception):  # noqa: N818 - not an error of ours, but an answer
    """A library could not be installed or driven; its text says why."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A library without measurements, and the reason."""

    library: str
    reason: str


def measure(libraries: Sequence[str], cache: Path) -> Iterator[Line | Missing]:
    """Measure one library after the other, so that none disturbs another."""
    for library in libraries:
        print(f"… {library}", file=sys.stderr, flush=True)
        try:
            yield run_adapter(library, python_of(library, cache))
        except NotMeasured as reason:
            yield Missing(library, str(reason))


def python_of(library: str, cache: Path, requirements: Path | None = None) -> Path:
    """The interpreter of the library's own environment, which is made if it is not there yet.

    `requirements` lists what is installed, with hashes; without it, the newest version of the library is.

    Raises:
        NotMeasured: It cannot be made.
    """
    if library == OURS:
        return Path(sys.executable)
    home = cache / library
    python, ready = home / "bin" / "python", home / ".ready"
    listed = "" if requirements is None else requirements.read_text(encoding="utf-8")
    if not ready.exists() or ready.read_text(encoding="utf-8") != listed:
        shutil.rmtree(home, ignore_errors=True)
        uv = [sys.executable, "-m", "uv"]
        wanted = [library] if requirements is None else ["--require-hashes", "--requirements", str(requirements)]
        _install([*uv, "venv", "--quiet", "--python", sys.executable, str(home)])
        _install([*uv, "pip", "install", "--quiet", "--python", str(python), *wanted])
        ready.write_text(listed, encoding="utf-8")
    return python


def _install(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except subprocess.CalledProcessError as failed:
        raise NotMeasured(f"not installed: {_last_line(failed.stderr)}") from failed
    except subprocess.TimeoutExpired as failed:
        raise NotMeasured(f"not installed within {INSTALL_SECONDS} s") from failed


def run_adapter(library: str, python: Path) -> Line:
    """Have the library's adapter measure it.

    Raises:
        NotMeasured: The adapter failed, or did not end.
    """
    return _parsed(Line, _start_adapter(library, python))


def run_single(library: str, cache: Path = CACHE) -> Single:
    """Have the adapter of an installed library measure one call.

    Raises:
        NotMeasured: The adapter failed, or did not end.
    """
    return _parsed(Single, _start_adapter(library, python_of(library, cache), "single"))


def installed(cache: Path = CACHE) -> list[str]:
    """Return the peers whose environments are there."""
    return [library for library in LIBRARIES if (cache / library / ".ready").exists()]


def _start_adapter(library: str, python: Path, *arguments: str) -> str:
    module = f"benchmarks.peers.adapters.{library.replace('-', '_')}"
    settings = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        # Files and a session of its own, for a library may leave worker processes behind that hold on to a pipe.
        adapter = subprocess.Popen(
            [str(python), "-m", module, *arguments],
            cwd=ROOT,
            env=settings,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            code = adapter.wait(ADAPTER_SECONDS)
        except subprocess.TimeoutExpired as failed:
            raise NotMeasured(f"not done within {ADAPTER_SECONDS} s") from failed
        finally:
            _end_session(adapter)
        out.seek(0)
        err.seek(0)
        if code != 0:
            raise NotMeasured(f"not driven: {_last_line(err.read())}")
        return out.read()


def _end_session(adapter: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(adapter.pid, signal.SIGKILL)
    adapter.wait()


def _parsed(kind: type[T], printed: str) -> T:
    try:
        return TypeAdapter(kind).validate_json(_last_line(printed))
    except ValidationError as failed:
        raise NotMeasured("its adapter printed something else than its line") from failed


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else "it said nothing"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print the tables; fails only when Spindle itself was not measured."""
    parser = ArgumentParser(prog="python -m benchmarks.peers", description="The same calls through Spindle and peers.")
    parser.add_argument("libraries", nargs="*", metavar="library", help=f"of {', '.join(LIBRARIES)}; default: all")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where the environments are made (default: .peers)")
    parser.add_argument("--fresh", action="store_true", help="make the environments anew, with the newest versions")
    options = parser.parse_args(argv)
    unknown = set(options.libraries) - set(LIBRARIES)
    if unknown:
        parser.error(f"no such library: {', '.join(sorted(unknown))}; there are {', '.join(LIBRARIES)}")
    libraries = [each for each in LIBRARIES if not options.libraries or each in options.libraries]
    if options.fresh:
        for library in libraries:
            shutil.rmtree(options.cache / library, ignore_errors=True)
    rows = list(measure(libraries, options.cache.resolve()))
    lines = [row for row in rows if isinstance(row, Line)]
    missing = [row for row in rows if isinstance(row, Missing)]
    show(lines, {row.library: row.reason for row in missing})
    return 1 if any(row.library == OURS for row in missing) else 0


if __name__ == "__main__":
    sys.exit(main())
