"""Runs pyright and mypy over a folder of Python files, as a user's project would."""

import json
import os
import subprocess
import sys
from pathlib import Path


def run_pyright(folder: Path, *, mode: str, python: Path | str = sys.executable) -> list[str]:
    """Return pyright's errors in the files of a folder, each as `file:line: message`."""
    settings = folder / "pyrightconfig.json"
    settings.write_text(json.dumps({"typeCheckingMode": mode}), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", str(python), "-p", str(folder)]
    # The pinned node of the lock, and no question to the network whether there is a newer pyright.
    environment = os.environ | {"PYRIGHT_PYTHON_GLOBAL_NODE": "0", "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}

    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300, env=environment)

    assert done.returncode in {0, 1}, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == len(list(folder.glob("*.py")))
    return sorted(
        f"{Path(each['file']).name}:{each['range']['start']['line'] + 1}: {each['message']}"
        for each in report["generalDiagnostics"]
        if each["severity"] == "error"
    )


def run_mypy(folder: Path, *, options: list[str], python: Path | str = sys.executable) -> list[str]:
    """Return mypy's errors in the files of a folder, each as `file:line: message`."""
    settings = folder / "mypy.ini"
    settings.write_text("[mypy]\n[mypy-boto3.*,botocore.*]\nignore_missing_imports = True\n", encoding="utf-8")
    names = sorted(path.name for path in folder.glob("*.py"))
    command = [sys.executable, "-m", "mypy", "--output=json", "--python-executable", str(python), *options, *names]

    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300, cwd=folder)

    assert done.returncode in {0, 1}, done.stdout + done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines() if line]
    return sorted(f"{each['file']}:{each['line']}: {each['message']}" for each in found if each["severity"] == "error")
