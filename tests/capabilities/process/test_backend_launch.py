"""The launcher starts fast, and what it says is understood."""

import subprocess

from spindle.capabilities.process.backend_launch import LauncherReport, find_interpreter, list_launcher_paths

HEAVY = {"typing", "enum", "re", "collections", "dataclasses", "signal", "pathlib", "anyio", "spindle.errors"}


def test_the_launcher_imports_nothing_heavy() -> None:
    folder = list_launcher_paths()[-1]
    code = (
        "import sys\n"
        "for name in ('spindle', 'spindle.capabilities', 'spindle.capabilities.process'):\n"
        "    module = sys.modules[name] = type(sys)(name)\n"
        "    module.__path__ = [sys.argv[1]]\n"
        "import spindle.capabilities.process.backend_launcher.__main__\n"
        "print(*sys.modules, sep='\\n')"
    )

    listing = subprocess.run(
        [find_interpreter(), "-I", "-S", "-c", code, folder], check=True, capture_output=True, text=True
    )

    assert "spindle.capabilities.process.backend_launcher.confine" in listing.stdout.split()
    assert not HEAVY & set(listing.stdout.split())


def test_a_story_is_understood_in_whatever_pieces_it_comes() -> None:
    reported = (
        b"ready\nenforced\tfiles\tpids\nmissing\tlandlock\tno such call\nstarted\t7\nended\t\t9\nsurvivors\nnews\tx\n"
    )
    story = LauncherReport()

    for position in range(len(reported)):
        story.feed(reported[position : position + 1])

    assert story.is_ready
    assert story.enforced == ("files", "pids")
    assert story.missing == {"landlock": "no such call"}
    assert (story.started_pid, story.has_ended, story.exit_code, story.signal) == (7, True, None, 9)
    assert story.has_survivors


def test_the_first_failure_is_the_one_that_counts() -> None:
    story = LauncherReport()

    story.feed(b"failed\tcwd\t2\tno such folder\nfailed\tlauncher\t0\tlater\n")

    assert story.failure == ("cwd", 2, "no such folder")
