"""The gateway of `spindle serve`: the tokens it accepts."""

import gc
import secrets
from pathlib import Path

import pytest

from spindle.cli.config import load_config
from spindle.cli.gateway import build_resource_settings, freeze_objects, hash_tokens
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


OAUTH = '[profiles.reader]\n[server.oauth]\nissuer = "https://login.example"\nscopes = { tools = "reader" }\n'


def test_the_tokens_of_an_authorization_server_are_configured(tmp_path: Path) -> None:
    path = tmp_path / "spindle.toml"
    path.write_text(f'{OAUTH}audience = "https://gateway.example/mcp"\nalgorithms = ["ES256"]\n', encoding="utf-8")
    found = build_resource_settings(load_config(path, environ={}))

    assert found is not None
    assert (found.issuer, dict(found.scopes)) == ("https://login.example", {"tools": "reader"})
    assert (found.find_resource(), found.algorithms) == ("https://gateway.example/mcp", ("ES256",))


@pytest.mark.parametrize(
    "changed",
    [
        OAUTH.replace('tools = "reader"', 'tools = "nowhere"'),
        OAUTH.replace("https://login", "http://login"),
        f'{OAUTH}algorithms = ["HS256"]\n',
        OAUTH.replace('{ tools = "reader" }', "{}"),
        f"{OAUTH}secret = 1\n",
    ],
    ids=["unknown profile", "no TLS", "symmetric", "no scopes", "unknown key"],
)
def test_unsafe_oauth_configurations_are_refused(tmp_path: Path, changed: str) -> None:
    path = tmp_path / "spindle.toml"
    path.write_text(changed, encoding="utf-8")
    with pytest.raises(InvalidConfigError):
        build_resource_settings(load_config(path, environ={}))


def test_objects_of_the_start_are_frozen_until_the_gateway_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen_when_collecting: list[int] = []  # to look at all objects of the tests would take seconds
    monkeypatch.setattr(gc, "collect", lambda: frozen_when_collecting.append(gc.get_freeze_count()))
    was_frozen = gc.get_freeze_count() > 0  # by those who run the tests
    gc.unfreeze()
    try:
        with freeze_objects():
            assert gc.get_freeze_count() > 1_000
            with freeze_objects():
                pass
            assert gc.get_freeze_count() > 1_000
        assert gc.get_freeze_count() == 0
        assert len(frozen_when_collecting) == 2
        assert frozen_when_collecting[0] == 0
    finally:
        if was_frozen:
            gc.freeze()
