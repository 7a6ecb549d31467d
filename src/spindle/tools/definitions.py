"""What the model is told about tools; built once for each tool, then joined."""

import json
from collections.abc import Iterable
from typing import Any, TypedDict

from spindle.errors import InvalidToolError
from spindle.tools.declaration import Tool


class ToolDefinition(TypedDict):
    """One tool as the model is told of it."""

    name: str
    description: str
    parameters: dict[str, Any]


class Definition:
    """A tool's definition as JSON, written on first use; every copy of a registry shares it."""

    __slots__ = ("_json", "_tool")

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._json: bytes | None = None

    @property
    def json(self) -> bytes:
        """The bytes: the same in every process."""
        if self._json is None:
            self._json = _write(self._tool)
        return self._json


def join(listed: Iterable[Definition]) -> bytes:
    """Put definitions together as one JSON list."""
    return b"[" + b",".join([definition.json for definition in listed]) + b"]"


def fresh(listed: Iterable[Definition]) -> list[ToolDefinition]:
    """Give definitions as plain data of the caller's own; changing it changes nothing else."""
    # Reading the kept bytes is several times cheaper than a deep copy, and as fresh.
    return json.loads(join(listed))


def _write(tool: Tool) -> bytes:
    told = tool.describe()
    definition = {"name": told["name"], "description": told["description"], "parameters": told["input_schema"]}
    try:
        text = json.dumps(definition, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        message = f"the tool {tool.name!r} cannot be described in JSON: {error}; look for it in its schema's defaults"
        raise InvalidToolError(message, tool=tool.name, field="input_schema") from error
    try:
        return text.encode()
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8; escaped, it still travels.
        return json.dumps(definition, separators=(",", ":")).encode()
