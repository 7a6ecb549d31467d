"""The files of `deploy/`: what they start exists, and they do not promise more than the command accepts."""

import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from spindle.cli.config import Config, load_config
from spindle.cli.config.sources import RemoteStore
from spindle.cli.main import build_app

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def parse_words(words: list[str]) -> dict[str, Any]:
    """Parse the words of a command line as `spindle` does, and return its arguments; a wrong option raises."""
    command, bound, _ = build_app().parse_args(words, exit_on_error=False, print_error=False)
    assert command.__name__ == "serve"
    return bound.arguments


def read_unit() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (DEPLOY / "spindle.service").read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def read_instructions() -> list[str]:
    text = re.sub(r"\\\n\s*", " ", (DEPLOY / "Dockerfile").read_text())
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def read_config() -> Config:
    return load_config(DEPLOY / "spindle.toml", environ={})


def read_compose() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def test_the_unit_starts_a_command_with_options_that_exist() -> None:
    program, *words = shlex.split(read_unit()["ExecStart"][0])

    arguments = parse_words(words)

    assert program.endswith("/bin/spindle")
    assert arguments["log_json"] is True
    assert str(arguments["where"].config) == "/etc/spindle/spindle.toml"
    assert str(arguments["where"].state) == "/var/lib/spindle"


def test_the_unit_is_hardened_and_waits_for_running_calls() -> None:
    unit = read_unit()
    config = read_config()

    for key in ("NoNewPrivileges", "DynamicUser", "PrivateTmp", "PrivateDevices", "ProtectHome"):
        assert unit[key] == ["yes"]
    assert unit["ProtectSystem"] == ["strict"]
    assert unit["CapabilityBoundingSet"] == [""]
    assert int(unit["TimeoutStopSec"][0]) > config.server.stop_seconds


@pytest.mark.slow
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    program = tmp_path / "spindle"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "spindle.service"
    unit.write_text(
        (DEPLOY / "spindle.service").read_text().replace("/usr/local/lib/spindle/bin/spindle", str(program))
    )

    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], check=False, capture_output=True, text=True, timeout=60
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_the_image_runs_a_command_that_exists_as_another_user_than_root() -> None:
    lines = read_instructions()
    command = next(line.removeprefix("CMD ") for line in lines if line.startswith("CMD "))

    arguments = parse_words(json.loads(command))

    exposed = next(line.split()[1] for line in lines if line.startswith("EXPOSE"))
    assert (arguments["host"], arguments["port"]) == ("0.0.0.0", int(exposed))
    assert [line for line in lines if line.startswith("USER")] == ["USER 10001:10001"]
    assert lines.index("USER 10001:10001") > max(n for n, line in enumerate(lines) if line.startswith("RUN"))
    assert any(line.startswith("HEALTHCHECK") and f":{exposed}/health" in line for line in lines)


def test_the_image_installs_only_packages_with_known_hashes_and_extras_that_exist() -> None:
    lines = read_instructions()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (chosen,) = [line for line in lines if line.startswith("ARG EXTRAS=")]

    installs = [part for line in lines if line.startswith("RUN") for part in line.split("&&") if "pip install" in part]

    assert len(installs) == 4
    assert [each for each in installs if "--require-hashes" not in each and "--no-deps /tmp/wheel" not in each] == []
    assert set(re.findall(r"--extra (\S+?)[\" ]", chosen)) <= set(extras)
    for name in ("uv", "hatchling"):
        assert re.search(rf"^{name}==", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    for line in lines:
        if line.startswith("COPY") and "--from" not in line:
            sources = [word for word in line.split()[1:-1] if not word.startswith("--")]
            assert [each for each in sources if not (ROOT / each).exists()] == []


def test_compose_gives_every_secret_as_a_file_and_nothing_to_root() -> None:
    content = read_compose()
    gateway, journal = content["services"]["gateway"], content["services"]["journal"]
    config = read_config()

    named = {key.removesuffix("_FILE"): value for key, value in gateway["environment"].items()}
    assert {value.rpartition("/")[2] for value in named.values()} == set(gateway["secrets"]) == set(content["secrets"])
    assert isinstance(config.journal, RemoteStore)
    assert {config.profiles["team"].token_env, config.journal.secrets["password"], "SPINDLE_STATE_KEY"} == set(named)
    assert all(key.endswith("_FILE") for key in gateway["environment"])
    assert gateway["read_only"] is True
    assert gateway["cap_drop"] == ["ALL"]
    assert gateway["ports"] == [f"127.0.0.1:{config.server.port}:{config.server.port}"]
    assert journal["networks"] == ["inside"]
    assert content["networks"]["inside"]["internal"] is True
    user = journal["environment"]
    assert config.journal.url == f"postgresql://{user['POSTGRES_USER']}@journal:5432/{user['POSTGRES_DB']}"
    assert (DEPLOY / gateway["volumes"][0].split(":")[0]).is_file()
    assert (DEPLOY / gateway["build"]["context"] / gateway["build"]["dockerfile"]).is_file()


def run_entrypoint(folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    program = folder / "bin" / "spindle"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s|" "$@"\nprintf "%s|%s" "$TEAM_TOKEN" "${TEAM_TOKEN_FILE-unset}"\n')
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["/bin/sh", str(DEPLOY / "entrypoint.sh"), "serve", "a b"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": path, "SPINDLE_SECRETS_FOLDER": str(folder), **environ},
    )


def test_the_entrypoint_reads_secrets_from_files_and_passes_the_words_on(tmp_path: Path) -> None:
    (tmp_path / "team_token").write_text("a $(touch x) \"b\" 'c'\n")

    done = run_entrypoint(tmp_path, TEAM_TOKEN_FILE=f"{tmp_path}/team_token", OTHER_FILE="/etc/hostname")

    assert (done.returncode, done.stdout) == (0, "serve|a b|a $(touch x) \"b\" 'c'|unset")


def test_the_entrypoint_stops_without_a_secret(tmp_path: Path) -> None:
    done = run_entrypoint(tmp_path, TEAM_TOKEN_FILE=f"{tmp_path}/missing")

    assert (done.returncode, done.stdout) == (2, "")
    assert "TEAM_TOKEN_FILE" in done.stderr
