"""A small API with a description, and calls of its tools through an executor on a real network backend."""

import json
import socket
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from spindle import Backends, Call, Err, Executor, Ok, ToolContext, ToolRegistry
from spindle.kit.openapi import ApiTools, build_api_tools
from tests.capabilities.loopback import Request, Server, answer, serving

PET: dict[str, Any] = {
    "type": "object",
    "required": ["id", "name"],
    "properties": {
        "id": {"type": "integer", "readOnly": True},
        "name": {"type": "string", "minLength": 1},
        "tag": {"type": "string", "nullable": True},
        "parent": {"$ref": "#/components/schemas/Pet"},
        "weight": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
    },
}

SHOP: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Shop", "version": "1"},
    "servers": [{"url": "{scheme}://127.0.0.1:PORT/v1", "variables": {"scheme": {"default": "http"}}}],
    "components": {
        "schemas": {"Pet": PET},
        "securitySchemes": {
            "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
            "asked": {"type": "apiKey", "in": "query", "name": "api_key"},
            "login": {"type": "http", "scheme": "basic"},
            "token": {"type": "http", "scheme": "bearer"},
        },
        "parameters": {"Page": {"name": "page", "in": "query", "schema": {"type": "integer"}}},
    },
    "paths": {
        "/pets": {
            "get": {
                "operationId": "listPets",
                "summary": "List the pets.",
                "tags": ["pets"],
                "parameters": [
                    {"$ref": "#/components/parameters/Page"},
                    {"name": "per_page", "in": "query", "schema": {"type": "integer", "maximum": 100}},
                    {"name": "tags", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                    {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                ],
            },
            "post": {
                "operationId": "addPet",
                "description": "Add a pet.",
                "tags": ["pets"],
                "security": [{"key": []}],
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}},
                },
            },
        },
        "/pets/{petId}": {
            "parameters": [{"name": "petId", "in": "path", "required": True, "schema": {"type": "string"}}],
            "get": {"operationId": "getPet", "tags": ["pets"], "description": "Return a pet."},
            "delete": {"operationId": "deletePet", "tags": ["pets"], "security": [{"token": []}, {"login": []}]},
        },
        "/upload": {
            "post": {
                "operationId": "upload",
                "requestBody": {"content": {"multipart/form-data": {"schema": {"type": "object"}}}},
            }
        },
    },
}

Respond = Callable[[Request, socket.socket], bytes]


def reply(value: Any, status: str = "200 OK", **headers: str) -> Respond:
    """Answer every request with one JSON value."""
    body = json.dumps(value).encode()
    return lambda request, connection: answer(status, body, content_type="application/json", **headers)


@dataclass
class Api:
    """A served API, and its tools behind an executor."""

    server: Server
    built: ApiTools
    executor: Executor

    async def call(self, operation: str, **args: Any) -> Ok | Err:
        call = Call("c1", f"openapi__shop__{operation}", args)
        [outcome] = await self.executor.execute_parallel([call], ToolContext(session_id="s1"))
        return outcome.result

    @property
    def target(self) -> str:
        return self.server.requests[-1].path

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.target).query, keep_blank_values=True)


@contextmanager
def served(
    root: Path,
    respond: Respond,
    description: Mapping[str, Any] = SHOP,
    *,
    values: Mapping[str, str] | None = None,
    **options: Any,
) -> Generator[Api]:
    """Serve an API and build its tools; `values` are the values of secrets by name."""
    with serving(respond) as server:
        text = json.dumps(description).replace("PORT", str(server.port))
        built = build_api_tools(json.loads(text), name="shop", **options)
        backends = Backends.local(
            root, hosts=["127.0.0.1"], private_addresses=["127.0.0.0/8"], secrets=(values or {}).get
        )
        yield Api(server, built, Executor(ToolRegistry(built.tools), backends=backends))
