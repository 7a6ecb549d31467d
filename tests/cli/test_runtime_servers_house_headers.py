"""Credentials in headers are looked up by a name, and stand in no spec."""

import json
from pathlib import Path

from spindle.cli.config import load_config
from spindle.cli.runtime_servers import build_server_secret_lookup, build_specs


def test_a_credential_in_a_header_becomes_a_secret(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "spindle.toml", tmp_path / "client.json"
    headers = '{Authorization = "Bearer ${TOK}", X-Team = "blue"}'
    ours.write_text(f'[mcp.servers.a]\nurl = "http://127.0.0.1:9/mcp"\nheaders = {headers}\n')
    given = {"authorization": "Basic eA==", "X-Api-Key": "0123456789"}
    theirs.write_text(json.dumps({"mcpServers": {"b": {"url": "http://127.0.0.1:9/mcp", "headers": given}}}))
    config = load_config(ours, mcp_configs=[theirs], environ={"TOK": "hush", "HOME": str(tmp_path)})

    first, second = build_specs(config)
    look_up = build_server_secret_lookup(config)

    assert dict(first.headers) == {"X-Team": "blue"}
    assert dict(second.headers) == {}
    assert {header: look_up(name) for header, name in first.header_secrets.items()} == {"Authorization": "Bearer hush"}
    assert {header: look_up(name) for header, name in second.header_secrets.items()} == given
