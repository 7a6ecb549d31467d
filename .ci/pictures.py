"""Generates the terminals in docs/pictures/ from what `make demo` and the `spindle` command print.

python .ci/pictures.py
"""

import fcntl
import io
import os
import pty
import signal
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 104
NEXT_PART = "What the model reads"
"""The table ends before this line; the rest of the output would make the picture too tall."""

BACKGROUND, TEXT = (24, 26, 33), (222, 225, 232)
RED, GREEN, YELLOW, BLUE = (255, 123, 114), (126, 211, 133), (235, 203, 112), (121, 184, 255)
MAGENTA, CYAN = (210, 168, 255), (118, 227, 234)
# Dark in both themes of the site. Each colour has a contrast of at least 4.5 to the background.
THEME = TerminalTheme(BACKGROUND, TEXT, [BACKGROUND, RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN, TEXT])

# Rich's own template loads a font from the web; this one takes what the reader has.
TEMPLATE = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: {char_height}px; line-height: {line_height}px;
}}
.{unique_id}-title {{ font-size: 18px; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


CONFIG = """\
[mcp.servers.time]
command = "{python}"
args = ["{servers}", "time"]

[mcp.servers.notes]
command = "{python}"
args = ["{servers}", "notes"]
"""
GATEWAY = {
    "list": "spindle list",
    "call": "spindle call mcp__time__get_current_time timezone=Europe/Paris",
    "journal": "spindle journal list",
    "serve": "spindle serve",
}
"""The pictures of docs/gateway.md, each with its command."""
SERVING = "notes: 5 tools"
"""`spindle serve` is stopped when it has printed this."""


def run_demo() -> str:
    """Return what the demonstration prints on a terminal, up to the end of its table."""
    printed = run_in_terminal([sys.executable, "-m", "examples.hostile_calls"], ROOT)
    lines = printed.splitlines()
    end = next(number for number, line in enumerate(lines) if NEXT_PART in line)
    return "\n".join(line.rstrip() for line in lines[:end])


def run_gateway() -> Iterator[tuple[str, str, str]]:
    """Run each command of the gateway's page and yield its picture's name, the command and the output."""
    own = Path(sys.executable).with_name("spindle")
    with tempfile.TemporaryDirectory() as folder:
        config = CONFIG.format(python=sys.executable, servers=ROOT / ".ci" / "picture_servers.py")
        (Path(folder) / "spindle.toml").write_text(config, encoding="utf-8")
        for name, command in GATEWAY.items():
            printed = run_in_terminal([str(own), *command.split()[1:]], Path(folder))
            yield name, command, printed.replace(str(own), "/usr/bin/spindle").replace(folder, "/srv/gateway")


def run_in_terminal(command: list[str], cwd: Path) -> str:
    """Return what a command prints on a terminal with colours; `spindle serve` is interrupted once it serves."""
    kept = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "COLUMNS", "VIRTUAL_ENV"}}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, WIDTH, 0, 0))
    environment = {**kept, "TERM": "xterm-256color", "SPINDLE_STATE": str(cwd / "state"), "PATH": path}
    if (cwd / "spindle.toml").exists():
        environment["SPINDLE_CONFIG"] = str(cwd / "spindle.toml")  # one that is only found must be trusted first
    process = subprocess.Popen(  # noqa: S603 (our own command)
        command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    printed = b""
    while chunk := _read(ours):
        printed += chunk
        if SERVING.encode() in printed:
            process.send_signal(signal.SIGINT)
            break
    process.wait(timeout=60)
    text = printed.decode().replace("\r\n", "\n")
    return "\n".join(line.rpartition("\r\x1b[0K")[2].rpartition("\r\x1b[K")[2] for line in text.split("\n"))


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the command has ended
        return b""


def draw(name: str, command: str, printed: str) -> str:
    """Return a terminal with the command and its output as SVG."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), highlight=False)
    console.print(Text.assemble(("$ ", "green"), (command, "bold")))
    console.print(Text.from_ansi(printed.rstrip()))
    console.print()  # the frame cuts off the underscores of the last line
    svg = console.export_svg(title="", theme=THEME, code_format=TEMPLATE, unique_id=name)
    return "\n".join(line.rstrip() for line in svg.splitlines() if line.strip()) + "\n"


def main() -> None:
    """Write the pictures."""
    for name, command, printed in [("demo", "make demo", run_demo()), *run_gateway()]:
        (ROOT / "docs" / "pictures" / f"{name}.svg").write_text(draw(name, command, printed), encoding="utf-8")


if __name__ == "__main__":
    main()
