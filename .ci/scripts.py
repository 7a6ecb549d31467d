"""Checks the types of the page's scripts with TypeScript, by tsconfig.json.

python .ci/scripts.py

Where npm cannot be reached and TypeScript was never installed, the check is skipped, and a line says so.
"""

import subprocess
import sys

from npm_packages import NODE, ROOT, UnreachableError, install


def main() -> int:
    """Return the exit code of the type checker, or 0 if it is missing."""
    try:
        packages = install("page")
    except UnreachableError as error:
        sys.stdout.write(
            "SKIPPED: the types of the scripts in src/spindle/inspector/static were not checked, because\n"
            f"SKIPPED: TypeScript is not installed and npm cannot download it: {error}\n"
        )
        return 0
    command = [str(NODE), str(packages / "typescript" / "bin" / "tsc"), "-p", str(ROOT / "tsconfig.json")]
    return subprocess.run(command, cwd=ROOT, check=False).returncode  # noqa: S603 (our own command)


if __name__ == "__main__":
    sys.exit(main())
