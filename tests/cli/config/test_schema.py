"""The keys of the configuration, and their page."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from spindle.cli.config.schema import ConfigFile, looks_like_secret

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def keys(schema: type[BaseModel]) -> Iterator[str]:
    """Every key that may stand in the file."""
    for name, field in schema.model_fields.items():
        yield field.alias or name
        for kind in (field.annotation, *get_args(field.annotation)):
            inner: Any = kind
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                yield from keys(inner)


def test_every_key_is_on_its_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    found = set(keys(ConfigFile))

    assert {"kit", "hosts", "env_secrets", "token_env", "stop_seconds", "import"} <= found
    assert not [key for key in sorted(found) if not re.search(rf"\b{key}\b", page)]


def test_the_pages_examples_are_configurations() -> None:
    import tomllib

    examples = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    whole, stores = (ConfigFile.model_validate(tomllib.loads(example)) for example in examples)

    assert whole.mcp.servers["tickets"].required
    assert stores.journal.options.password == "JOURNAL_PASSWORD"


@pytest.mark.parametrize(
    ("name", "value", "is_secret"),
    [
        ("GITHUB_TOKEN", "abcdefgh123", True),
        ("GITHUB_TOKEN", "${GITHUB_TOKEN}", False),
        ("GITHUB_TOKEN", "short", False),
        ("Authorization", "Bearer ${TOKEN}", False),
        ("Authorization", "Bearer abcdefgh123", True),
        ("X-Api-Key", "0123456789", True),
        ("TOKENIZERS_PARALLELISM", "false-is-the-value", False),
        ("MONKEY", "a perfectly plain text", False),
        ("", "a perfectly plain text", False),
        ("", "see ghp_0123456789abcdefghijklmn", True),
        ("", "AKIAIOSFODNN7EXAMPLE", True),
        ("", "-----BEGIN RSA PRIVATE KEY-----", True),
    ],
)
def test_a_credential_is_known_by_its_looks_or_its_name(name: str, value: str, is_secret: bool) -> None:
    assert looks_like_secret(name, value) is is_secret
