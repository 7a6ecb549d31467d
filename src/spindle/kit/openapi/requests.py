"""Writes the arguments of a call as an HTTP request: paths, queries, headers, cookies and bodies."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, unquote, urlencode

from spindle.errors import InvalidToolArgsError
from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.kit.openapi.document import FORM_TYPE, ApiParameter, Operation

_VARIABLE = re.compile(r"\{([^{}]*)\}")
_SEPARATORS: Final = {"form": ",", "spaceDelimited": " ", "pipeDelimited": "|"}

Pairs = list[tuple[str, str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedRequest:
    """A request without its credentials."""

    method: str
    url: str
    headers: dict[str, str] = field(default_factory=dict[str, str])
    query: Pairs = field(default_factory=list[tuple[str, str]])
    cookies: Pairs = field(default_factory=list[tuple[str, str]])
    content: str | None = None
    json: JsonValue = None

    def get_url(self) -> str:
        """Return the URL with its query."""
        return f"{self.url}?{urlencode(self.query, quote_via=quote)}" if self.query else self.url


def prepare_request(
    operation: Operation, base_url: str, names: Mapping[str, ApiParameter], args: JsonObject
) -> PreparedRequest:
    """Build the request of a call; `names` maps each argument to its parameter.

    Raises:
        InvalidToolArgsError: A path parameter would change the path of the operation.
    """
    in_path: dict[str, str] = {}
    query: Pairs = []
    cookies: Pairs = []
    headers: dict[str, str] = {}
    for name, parameter in names.items():
        if name not in args:
            continue
        value = args[name]
        match parameter.place:
            case "path":
                in_path[parameter.name] = _write_path_value(parameter, value)
            case "query":
                query += _write_pairs(parameter, value)
            case "header":
                headers[parameter.name] = _write_simple(parameter, value)
            case "cookie":
                cookies += [(key, quote(text, safe="")) for key, text in _write_pairs(parameter, value)]
    path = _VARIABLE.sub(lambda found: in_path.get(found[1], ""), operation.path)
    if any(unquote(segment) in {".", ".."} for segment in path.split("/")):
        raise InvalidToolArgsError(f"a path parameter of {operation.id} must not make a segment '.' or '..'")
    content, json_value = _write_body(operation, args, headers)
    return PreparedRequest(
        method=operation.method,
        url=base_url.rstrip("/") + path,
        headers=headers,
        query=query,
        cookies=cookies,
        content=content,
        json=json_value,
    )


def _write_body(operation: Operation, args: JsonObject, headers: dict[str, str]) -> tuple[str | None, JsonValue]:
    body = operation.body
    if body is None or "body" not in args:
        return None, None
    value = args["body"]
    headers["content-type"] = body.media_type
    if body.is_json:
        # A JSON body may be null, which the network handle takes as no body.
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")), None
    if body.media_type.partition(";")[0].strip() == FORM_TYPE:
        fields = value if is_object(value) else {}
        return urlencode([(name, text) for name, part in fields.items() for text in _to_texts(part)]), None
    return value if isinstance(value, str) else json.dumps(value), None


def _write_path_value(parameter: ApiParameter, value: JsonValue) -> str:
    # `matrix` and `label` are rare; both put a mark before the same text.
    marks = {"label": ".", "matrix": f";{parameter.name}="}
    return marks.get(parameter.style, "") + quote(_write_simple(parameter, value), safe=",")


def _write_simple(parameter: ApiParameter, value: JsonValue) -> str:
    if parameter.is_json:
        return json.dumps(value, ensure_ascii=True)
    if is_array(value):
        return ",".join(map(to_text, value))
    if is_object(value):
        if parameter.is_exploded:
            return ",".join(f"{name}={to_text(part)}" for name, part in value.items())
        return ",".join(f"{name},{to_text(part)}" for name, part in value.items())
    return to_text(value)


def _write_pairs(parameter: ApiParameter, value: JsonValue) -> Pairs:
    name = parameter.name
    if parameter.is_json:
        return [(name, json.dumps(value, ensure_ascii=False))]
    if is_array(value):
        texts = list(map(to_text, value))
        if parameter.is_exploded:
            return [(name, text) for text in texts]
        return [(name, _SEPARATORS.get(parameter.style, ",").join(texts))]
    if is_object(value):
        if parameter.style == "deepObject":
            return _write_deep(name, value)
        if parameter.is_exploded:
            return [(key, to_text(part)) for key, part in value.items()]
        return [(name, ",".join(f"{key},{to_text(part)}" for key, part in value.items()))]
    return [(name, to_text(value))]


def _write_deep(prefix: str, value: JsonObject) -> Pairs:
    found: Pairs = []
    for key, part in value.items():
        if is_object(part):
            found += _write_deep(f"{prefix}[{key}]", part)
        else:
            found += [(f"{prefix}[{key}]", text) for text in _to_texts(part)]
    return found


def _to_texts(value: JsonValue) -> Sequence[str]:
    return list(map(to_text, value)) if is_array(value) else [to_text(value)]


def to_text(value: JsonValue) -> str:
    """Return a value as a request contains it."""
    match value:
        case str():
            return value
        case None:
            return ""
        case _:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
