"""The gateway of `spindle serve`: the tokens it accepts."""

import secrets
from pathlib import Path

import pytest

from spindle.cli.config import load_config
from spindle.cli.gateway import hash_tokens
from spindle.errors import InvalidConfigError


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "gateway.example"])
def test_a_guessable_token_is_refused_where_other_machines_can_connect(tmp_path: Path, host: str) -> None:
    path = tmp_path / "spindle.toml"
    path.write_text('[profiles.reader]\ntoken_env = "READER"\n', encoding="utf-8")
    config = load_config(path, environ={})

    assert hash_tokens(config, {"READER": "hunter2"}, host="127.0.0.1")
    assert hash_tokens(config, {"READER": secrets.token_urlsafe(32)}, host=host)
    with pytest.raises(InvalidConfigError) as caught:
        hash_tokens(config, {"READER": "hunter2"}, host=host)
    assert "hunter2" not in str(caught.value)
