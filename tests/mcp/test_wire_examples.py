"""Every example of the protocol's own documents is read by the SDK's types, and written back as it was."""

import json
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import jsonschema_rs
import mcp.types
import pytest
from pydantic import TypeAdapter

Example: TypeAlias = tuple[str, str, Any]

REVISION = "2026-07-28"


@pytest.fixture(scope="module")
def examples(shared_data: Path) -> list[Example]:
    """Each with the name of its type, its own name, and its data."""
    folder = shared_data / "mcp" / "schema" / REVISION / "examples"
    found = sorted(folder.glob("*/*.json"))
    return [(path.parent.name, path.stem, json.loads(path.read_text(encoding="utf-8"))) for path in found]


def written_back(kind: str, data: Any) -> Any:
    """Read with the type of that name, as the SDK has it, and write what was read."""
    if kind.endswith("ResultResponse"):
        return data | {"result": _through(kind.removesuffix("Response"), _through("JSONRPCResponse", data)["result"])}
    if kind.endswith("Error"):
        return _through("JSONRPCError" if "error" in data else "ErrorData", data)
    if kind.endswith("Schema"):
        # The SDK has no types for what a form may ask; it reads them as part of one.
        asked = {"message": "?", "requestedSchema": {"type": "object", "properties": {"it": data}}}
        return _through("ElicitRequestFormParams", asked)["requestedSchema"]["properties"]["it"]
    if kind == "CreateMessageResult":
        kind = "CreateMessageResultWithTools"
    if kind.endswith(("Request", "Notification")):
        envelope = {name: data[name] for name in ("jsonrpc", "id") if name in data}
        if "jsonrpc" in data:
            assert _through("JSONRPCRequest" if "id" in data else "JSONRPCNotification", data) == data
        return envelope | _through(kind, {name: value for name, value in data.items() if name not in envelope})
    return _through(kind, data)


@cache
def _adapter(kind: str) -> TypeAdapter[Any]:
    return TypeAdapter(getattr(mcp.types, kind))


def _through(kind: str, data: Any) -> Any:
    adapter = _adapter(kind)
    return adapter.dump_python(adapter.validate_python(data), by_alias=True, mode="json", exclude_unset=True)


def test_there_are_as_many_examples_as_were_looked_at(examples: list[Example]) -> None:
    assert len(examples) == 129


def test_every_example_is_written_back_as_it_was(examples: list[Example]) -> None:
    changed = {f"{kind}/{name}": back for kind, name, data in examples if (back := written_back(kind, data)) != data}

    assert changed == {}


def test_every_example_fits_the_published_schema(examples: list[Example], shared_data: Path) -> None:
    schema = json.loads((shared_data / "mcp" / "schema" / REVISION / "schema.json").read_text(encoding="utf-8"))
    misfits: dict[str, str] = {}
    for kind, name, data in examples:
        validator = jsonschema_rs.validator_for({"$ref": f"#/$defs/{kind}", "$defs": schema["$defs"]})
        misfits |= {f"{kind}/{name}": error.message for error in validator.iter_errors(data)}

    assert misfits == {}
