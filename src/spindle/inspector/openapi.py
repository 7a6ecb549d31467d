"""The OpenAPI description of the API, built from the declarations of its endpoints."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from spindle.inspector.endpoints import PREFIX, Endpoint, NoInput
from spindle.json_types import JsonObject

_References: TypeAlias = Mapping[tuple[type[BaseModel], JsonSchemaMode], JsonObject]

_PARAMETER: Final = re.compile(r"{(\w+)(?::\w+)?}")
_REF: Final = "#/components/schemas/{model}"
_ERROR: Final[JsonObject] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {"code": {"type": "string"}, "message": {"type": "string"}, "field": {"type": "string"}},
        }
    },
}


_REFUSED: Final[JsonObject] = {
    "description": "The request was refused.",
    "content": {"application/json": {"schema": {"$ref": _REF.format(model="Error")}}},
}
_LOGIN: Final[JsonObject] = {
    "type": "object",
    "properties": {"code": {"type": "string", "description": "Of a one-time link; left out with a bearer token."}},
}
_FRAME: Final[tuple[tuple[str, str, str, str, JsonObject | None], ...]] = (
    (
        "/login",
        "post",
        "log_in",
        "Log in with the code of a one-time link, or with a token; sets a cookie and returns the token of the page.",
        _LOGIN,
    ),
    ("/logout", "post", "log_out", "End the login.", None),
    ("/link", "post", "make_link", "Make a one-time link; only for the command of the server's owner.", None),
    ("/proof", "get", "prove", "Prove to a command that the server at this address has the state key.", None),
    ("/openapi.json", "get", "describe_api", "Return this document.", None),
    ("/events", "get", "stream_events", "Stream live updates as server-sent events.", None),
)
"""The operations that are not endpoints of a view: path, method, id, summary and body."""

_QUERIES: Final = {"/events": ("topics", "Names of feeds, separated by commas."), "/proof": ("nonce", "Any text.")}
_OPEN: Final = ("/login", "/proof")


def build_document(
    endpoints: "Iterable[Endpoint[Any, Any]]", *, version: str, cookie: str = "spindle_page"
) -> JsonObject:
    """Return the description of endpoints as an OpenAPI 3.1 document."""
    listed = list(endpoints)
    names = Counter(each.handler.__name__ for each in listed)
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = []
    for each in listed:
        models.append((each.params, "validation"))
        models.append((each.body, "validation"))
        if each.answer is not None:
            models.append((each.answer, "serialization"))
    found, shared = models_json_schema(models, ref_template=_REF)
    references: _References = {(model, mode): found[model, mode] for model, mode in models}
    schemas: JsonObject = {"Error": _ERROR, **shared.get("$defs", {})}
    paths: dict[str, JsonObject] = {f"{PREFIX}{each[0]}": _describe_frame(*each) for each in _FRAME}
    for each in listed:
        operation = _describe(each, references, schemas)
        if names[each.handler.__name__] > 1:  # ids are unique in a document
            operation["operationId"] = f"{operation['tags'][0]}_{each.handler.__name__}"
        path = _PARAMETER.sub(r"{\1}", each.path)
        paths.setdefault(f"{PREFIX}{path}", {})[each.method.lower()] = operation
    schemes: JsonObject = {
        "login": {"type": "apiKey", "in": "cookie", "name": cookie},
        "page": {
            "type": "apiKey",
            "in": "header",
            "name": "x-spindle-token",
            "description": "From the answer to the login; the cookie alone opens nothing.",
        },
        "token": {"type": "http", "scheme": "bearer"},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Spindle", "version": version, "description": "The API behind the page of `spindle serve`."},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": schemes},
        "security": [{"login": [], "page": []}, {"token": []}],
    }


def _describe_frame(path: str, method: str, id: str, summary: str, body: JsonObject | None) -> JsonObject:
    content: JsonObject = {"text/event-stream": {"schema": {"type": "string"}}}
    answer = content if path == "/events" else {"application/json": {"schema": {"type": "object"}}}
    operation: JsonObject = {
        "operationId": id,
        "summary": summary,
        "tags": ["frame"],
        "responses": {"200": {"description": "The answer.", "content": answer}, "default": _REFUSED},
    }
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    if path in _QUERIES:
        name, text = _QUERIES[path]
        schema = {"type": "string", "description": text}
        operation["parameters"] = [{"name": name, "in": "query", "required": False, "schema": schema}]
    if path in _OPEN:
        operation["security"] = []
    return {method: operation}


def _describe(
    endpoint: "Endpoint[Any, Any]",
    references: _References,
    schemas: JsonObject,
) -> JsonObject:
    content: JsonObject = {}
    if endpoint.answer is not None:
        content = {"content": {"application/json": {"schema": references[endpoint.answer, "serialization"]}}}
    operation: JsonObject = {
        "operationId": endpoint.handler.__name__,
        "summary": endpoint.summary,
        "tags": [endpoint.path.split("/")[1]],
        "description": f"Needs the role {endpoint.role}.",
        "responses": {
            "200": {"description": "The answer.", **content},
            "default": _REFUSED,
        },
    }
    model = schemas.get(str(references[endpoint.params, "validation"].get("$ref", "")).rpartition("/")[2], {})
    in_path, required = set(_PARAMETER.findall(endpoint.path)), model.get("required", [])
    if parameters := [
        {
            "name": name,
            "in": "path" if name in in_path else "query",
            "required": name in in_path or name in required,
            "schema": schema,
        }
        for name, schema in model.get("properties", {}).items()
    ]:
        operation["parameters"] = parameters
    if endpoint.body is not NoInput:
        body = references[endpoint.body, "validation"]
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return operation
