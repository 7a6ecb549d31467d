"""Compares what a dialect writes with the file that was read and found right.

With SPINDLE_UPDATE_GOLDEN=1 the file is written instead; read it before you commit it.
"""

import base64
import json
import os
import re
from pathlib import Path
from typing import Any, cast

_HERE = Path(__file__).parent


def agrees(name: str, data: Any) -> None:
    """Hold data against the golden file `name`; nonces are random, and compared by their place."""
    place = _HERE / name
    text = json.dumps(_plain(data), ensure_ascii=False, indent=2) + "\n"
    text = re.sub("(?<=trusted_content_)[a-z]{16}", "NONCE", text)
    if os.environ.get("SPINDLE_UPDATE_GOLDEN"):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    assert text == place.read_text(encoding="utf-8")


def _plain(value: Any) -> Any:
    """Write bytes, which some SDKs take, as base64."""
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in cast("dict[str, Any]", value).items()}
    return [_plain(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value
