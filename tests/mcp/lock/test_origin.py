"""The origin of a server in the lock: enough to recognise it, and no secret."""

import pytest

from spindle.mcp.lock import describe_origin

SECRET = "s3cr3t-value-4711"


@pytest.mark.parametrize(
    "args",
    [
        ("--api-key", SECRET),
        (f"--token={SECRET}",),
        (f"PASSWORD={SECRET}",),
        (f"postgres://user:{SECRET}@db/x",),
        (f"--url=https://api.example/mcp?key={SECRET}&x=1",),
        ("--header", f"ghp_{SECRET}abcdefgh".replace("-", "")),
    ],
)
def test_secrets_on_a_command_line_are_masked(args: tuple[str, ...]) -> None:
    origin = describe_origin(command="npx", args=("-y", "server@1.2.3", *args))

    assert "4711" not in repr(origin)
    assert origin["command"][:3] == ["npx", "-y", "server@1.2.3"]


def test_secrets_in_a_url_are_masked_and_its_place_stays() -> None:
    assert describe_origin(url=f"https://u:{SECRET}@mcp.example/v1/mcp?api_key={SECRET}&plain#x") == {
        "url": "https://mcp.example/v1/mcp?api_key=***&plain"
    }


def test_variables_stay_so_that_the_origin_is_the_same_on_every_machine() -> None:
    assert describe_origin(command="${VENV}/bin/server", args=("--token", "${TOKEN}", "--key=${KEY}")) == {
        "command": ["${VENV}/bin/server", "--token", "${TOKEN}", "--key=${KEY}"]
    }
    assert describe_origin(url="https://x.example/mcp?key=${KEY}") == {"url": "https://x.example/mcp?key=${KEY}"}
