"""Finds the progress output of package managers, to leave it out."""

import re

from spindle.kit.reducers.lines import NoiseFilter, drop_options, find_matching, get_program, split_command
from spindle.kit.reducers.test_runners import CARGO_PROGRESS

_VITAL = re.compile(
    r"error|warn|fail|vulnerab|conflict|deprecat|\b(?:added|removed|changed|installed|uninstalled|replaced|upgraded)\b|"
    r"^ *[+~-] \S|^[EWN]: |^(?:Inst|Remv|Setting up|Removing) ",
    re.IGNORECASE,
)

_PIP = re.compile(
    r" *(?:Looking in |Collecting |Obtaining |Processing |Downloading |Using cached |Preparing metadata|"
    r"Installing build dependencies|Getting requirements|Checking if build backend|Building wheels? for|"
    r"Building editable for|Created (?:wheel|editable) for|Stored in directory|Successfully built |"
    r"Installing collected packages|Attempting uninstall|Found existing installation|Uninstalling |"
    r"Requirement already satisfied: .* \(from |[╸╺━])|$"
)
_UV = re.compile(r" *(?:Using (?:Python|CPython|Pypy) |Downloading |Downloaded |Building |Built |Prepared |Preparing )")
_NPM = re.compile(
    r"npm (?:http|verb|sill|silly|info|notice|timing)\b|\d+ packages? (?:are|is) looking for funding|"
    r"  run `npm fund` for details|$"
)
_PNPM = re.compile(r"Progress: |[+-]+$|Downloading |Lockfile is up to date|Scope: |$")
_YARN = re.compile(r"\[\d/\d\] |yarn (?:install|add|remove|upgrade) v\d|➤ YN00(?:00: (?:[│┌└]|· Yarn )|13|19|07)|$")
_APT = re.compile(
    r"(?:Reading package lists|Building dependency tree|Reading state information|Get:\d|Hit:\d|Ign:\d|"
    r"Selecting previously unselected|\(Reading database|Preparing to unpack|Unpacking |Processing triggers for|"
    r"Conf |\d+% \[|Extracting templates|Preconfiguring packages|Scanning )|$"
)
_PIP_ERROR = re.compile(r" *(?:ERROR|error): ")


def _pip_noise(lines: list[str]) -> set[int]:
    # An error may quote a complete build log, in which every line matters.
    error = next((number for number, line in enumerate(lines) if _PIP_ERROR.match(line)), len(lines))
    return find_matching(lines[:error], _PIP)


def _build_filter(pattern: re.Pattern[str]) -> NoiseFilter:
    return NoiseFilter(lambda lines: find_matching(lines, pattern), "progress", _VITAL)


_MANAGERS = {
    "pip": NoiseFilter(_pip_noise, "progress and satisfied requirements", _VITAL),
    "uv": _build_filter(_UV),
    "npm": _build_filter(_NPM),
    "pnpm": _build_filter(_PNPM),
    "yarn": _build_filter(_YARN),
    "apt-get": _build_filter(_APT),
    "cargo": _build_filter(CARGO_PROGRESS),
}
_VERBS = {
    "pip": {"install", "uninstall", "download", "wheel"},
    "uv": {"sync", "add", "remove"},
    "npm": {"install", "i", "in", "add", "ci", "clean-install", "uninstall", "remove", "rm", "update", "up", "upgrade"},
    "pnpm": {"install", "i", "add", "remove", "rm", "update", "up", "ci"},
    "yarn": {"install", "add", "remove", "upgrade", "up"},
    "apt-get": {"install", "update", "upgrade", "dist-upgrade", "full-upgrade", "remove", "purge", "autoremove"},
    "cargo": {"build", "b", "install", "fetch", "update"},
}
_PIP_NAME = re.compile(r"pip[\d.]*$")
_PYTHON = re.compile(r"python[\d.]*$")


def get_install_noise(command: str) -> NoiseFilter | None:
    """Return the noise filter for `command` if it installs, removes or builds packages."""
    words = split_command(command)
    if not words:
        return None
    manager, verbs = _manager(words)
    if manager == "yarn" and not verbs:
        return _MANAGERS["yarn"]
    return _MANAGERS[manager] if verbs and verbs[0] in _VERBS.get(manager, ()) else None


def _manager(words: list[str]) -> tuple[str, list[str]]:
    name, rest = get_program(words), drop_options(words[1:])
    if _PYTHON.match(name) and words[1:3] == ["-m", "pip"]:
        return "pip", drop_options(words[3:])
    if _PIP_NAME.match(name):
        return "pip", rest
    if name == "uv" and rest[:1] in (["pip"], ["tool"]):
        return "uv", ["sync"] if rest[1:2] and rest[1] in {"install", "uninstall", "sync", "upgrade"} else []
    return ("apt-get" if name == "apt" else name), rest
