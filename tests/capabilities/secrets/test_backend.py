"""Where secrets come from, and what a tool sees of them."""

import os
import threading
import traceback
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import anyio
import pytest

from spindle.capabilities.declare import CallScope
from spindle.capabilities.secrets.backend import SecretsBackend, SecretsHandle, from_env, from_file, from_keyring
from spindle.capabilities.secrets.secret import MAX_SECRET_CHARS, Redactor
from spindle.errors import CapabilityError, SecretError, UsageError

pytestmark = pytest.mark.anyio


def opened(source: Any, *names: str, redactor: Redactor | None = None) -> SecretsHandle:
    return SecretsBackend(source).open(names, CallScope(tool="pay", session_id="s1", redactor=redactor))


async def test_a_declared_secret_is_handed_out_and_masked_from_then_on() -> None:
    redactor = Redactor()
    secrets = opened({"KEY": "hunter22"}, "KEY", redactor=redactor)

    secret = await secrets.get("KEY")

    assert (secret.reveal(), secret.name) == ("hunter22", "KEY")
    assert redactor.redact("it is hunter22!") == "it is ***!"
    assert secrets.redactor is redactor


async def test_an_undeclared_secret_is_refused_alike_whether_it_is_there_or_not() -> None:
    asked: list[str] = []
    secrets = opened(asked.append, "KEY")

    errors: list[CapabilityError] = []
    for name in ("OTHER", "hunter22-absent"):
        with pytest.raises(CapabilityError) as caught:
            await secrets.get(name)
        errors.append(caught.value)

    assert str(errors[0]) == str(errors[1])
    assert not [error for error in errors if "OTHER" in str(error) or "hunter22" in str(error)]
    assert (errors[0].tool, errors[0].field) == ("pay", "secrets")
    assert asked == []


# --- sources


async def test_a_function_may_be_sync_and_then_does_not_block_the_loop() -> None:
    here = threading.get_ident()
    ran_in: list[int] = []

    def look_up(name: str) -> str:
        ran_in.append(threading.get_ident())
        return f"value of {name}"

    assert (await opened(look_up, "KEY").get("KEY")).reveal() == "value of KEY"
    assert ran_in != [here]


async def test_a_function_may_be_async_in_every_form() -> None:
    async def look_up(name: str) -> str:
        await anyio.lowlevel.checkpoint()
        return "hunter22"

    class Vault:
        async def __call__(self, name: str) -> str:
            return await look_up(name)

    def hands_over(name: str) -> Awaitable[str]:
        return look_up(name)

    for source in (look_up, Vault(), hands_over):
        assert (await opened(source, "KEY").get("KEY")).reveal() == "hunter22"


@pytest.mark.parametrize("value", [None, "", "  \n", 5, b"bytes", "x" * (MAX_SECRET_CHARS + 1)])
async def test_a_value_that_is_none_or_unfit_names_the_secret(value: Any) -> None:
    def look_up(name: str) -> Any:
        return value

    with pytest.raises(SecretError) as caught:
        await opened(look_up, "KEY").get("KEY")

    assert (caught.value.secret, caught.value.tool, caught.value.field) == ("KEY", "pay", "secrets")


async def test_the_message_of_a_failing_source_is_not_shown() -> None:
    def look_up(name: str) -> str:
        raise RuntimeError("token hunter22 refused")

    with pytest.raises(SecretError) as caught:
        await opened(look_up, "KEY").get("KEY")

    assert caught.value.secret == "KEY"
    assert "hunter22" not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_something_that_is_not_a_source_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        SecretsBackend(["KEY"])  # type: ignore[arg-type]

    assert caught.value.field == "secrets"


async def test_the_environment_is_read_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = opened(from_env("APP_"), "KEY")
    monkeypatch.setenv("APP_KEY", "hunter22")

    assert (await secrets.get("KEY")).reveal() == "hunter22"

    monkeypatch.delenv("APP_KEY")
    with pytest.raises(SecretError):
        await secrets.get("KEY")


async def test_a_keyring_is_asked_for_service_and_name() -> None:
    ring = {("shop", "KEY"): "hunter22"}
    source = from_keyring("shop", lambda service, name: ring.get((service, name)))

    assert (await opened(source, "KEY").get("KEY")).reveal() == "hunter22"


DOTENV = """\
# the shop
PLAIN=hunter22   # not part of it
export EXPORTED = some value
SINGLE='as $it \\n is # here'
DOUBLE="line\\none \\"quoted\\" #1" # said
LINES="-----BEGIN-----
abc
-----END-----"
HASH=abc#def
URL=postgres://u:p@h/db?x=1=2
EMPTY=
"""


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_file_of_lines_is_understood(tmp_path: Path, line_end: str) -> None:
    source = from_file(private_file(tmp_path, DOTENV.replace("\n", line_end)))

    assert source("PLAIN") == "hunter22"
    assert source("EXPORTED") == "some value"
    assert source("SINGLE") == "as $it \\n is # here"
    assert source("DOUBLE") == 'line\none "quoted" #1'
    assert source("LINES") == f"-----BEGIN-----{line_end}abc{line_end}-----END-----"
    assert source("HASH") == "abc#def"
    assert source("URL") == "postgres://u:p@h/db?x=1=2"
    assert source("EMPTY") == ""
    assert source("ABSENT") is None


def test_a_file_of_json_is_understood_and_read_anew(tmp_path: Path) -> None:
    path = private_file(tmp_path, '\ufeff {"KEY": "hunter22"}')
    source = from_file(path)

    assert source("KEY") == "hunter22"
    path.write_text('{"KEY": "rotated"}')
    assert source("KEY") == "rotated"


@pytest.mark.parametrize(
    "text",
    ['{"KEY": "hunter22"', '{"KEY": 5}', '{"KEY": {"a": "hunter22"}}', "hunter22", 'KEY="hunter22', "KEY='a' hunter22"],
)
def test_a_file_that_is_not_understood_is_not_shown(tmp_path: Path, text: str) -> None:
    path = private_file(tmp_path, text)

    with pytest.raises(SecretError) as caught:
        from_file(path)

    assert "hunter22" not in "".join(traceback.format_exception(caught.value))
    assert str(path) in str(caught.value)


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620, 0o601])
def test_a_file_that_others_may_use_is_refused_unless_that_is_meant(tmp_path: Path, mode: int) -> None:
    path = private_file(tmp_path, "KEY=hunter22")
    path.chmod(mode)

    with pytest.raises(SecretError):
        from_file(path)

    assert from_file(path, private=False)("KEY") == "hunter22"


async def test_a_file_that_becomes_public_later_is_refused_then(tmp_path: Path) -> None:
    path = private_file(tmp_path, "KEY=hunter22")
    secrets = opened(from_file(path), "KEY")
    path.chmod(0o644)

    with pytest.raises(SecretError) as caught:
        await secrets.get("KEY")

    assert caught.value.secret == "KEY"


def test_a_value_that_is_not_a_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo, 0o600)
    binary = private_file(tmp_path, "")
    binary.write_bytes(b"\xff\xfe\x00")

    for path in (fifo, tmp_path, tmp_path / "absent", binary):
        with pytest.raises(SecretError):
            from_file(path)


def private_file(folder: Path, text: str) -> Path:
    path = folder / "secrets"
    path.touch(0o600)
    path.write_text(text, newline="")
    return path
