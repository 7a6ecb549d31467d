"""Reads an OpenAPI 3.x description: its operations, their parameters and bodies, servers and security schemes."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, TypeAlias, get_args
from urllib.parse import unquote, urljoin

from spindle.artifacts.yaml import load_yaml
from spindle.errors import InvalidOpenApiError
from spindle.extras import needs_extra
from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.text import quote_name, to_line, to_printable

MAX_DESCRIPTION_BYTES: Final = 20_000_000
MAX_VALUES: Final = 2_000_000
"""Limit of the values of a YAML description, after its aliases are expanded."""
_MAX_REFERENCES: Final = 20
_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch")
_VERSION = re.compile(r"3\.[012]\.\d{1,9}(-[\w.]+)?")
_VARIABLE = re.compile(r"\{([^{}]*)\}")

Place: TypeAlias = Literal["path", "query", "header", "cookie"]
PLACES: Final[tuple[Place, ...]] = get_args(Place)
_PLACES: Final[Mapping[str, Place]] = {place: place for place in PLACES}
_IGNORED_HEADERS: Final = frozenset(("accept", "content-type", "authorization"))
"""Headers that the specification excludes from the parameters."""
_JSON_TYPE = re.compile(r"application/(?:[\w.+-]+\+)?json(?:\s*;.*)?$", re.IGNORECASE)
FORM_TYPE: Final = "application/x-www-form-urlencoded"


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiParameter:
    """A parameter of an operation, with the style in which its value is written."""

    name: str
    place: Place
    schema: JsonValue
    is_required: bool
    description: str
    style: str
    is_exploded: bool
    is_json: bool = False
    """Whether the value is written as JSON text, as a parameter with `content` is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiBody:
    """The request body of an operation."""

    media_type: str
    schema: JsonValue
    is_required: bool
    description: str

    @property
    def is_json(self) -> bool:
        """Whether the body is sent as JSON."""
        return is_json_type(self.media_type)


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """One operation of an API."""

    id: str
    method: str
    path: str
    """The path template, such as `/pets/{petId}`."""
    base_url: str | None
    """The first server of the description; `None` if it names none."""
    summary: str
    description: str
    tags: tuple[str, ...]
    parameters: tuple[ApiParameter, ...]
    body: ApiBody | None
    security: tuple[tuple[str, ...], ...]
    """Alternatives, each the names of the security schemes that are needed together."""


def is_json_type(media_type: str) -> bool:
    """Return whether a media type is JSON."""
    return _JSON_TYPE.match(media_type) is not None


def parse_description(data: bytes | str) -> JsonObject:
    """Parse a description in JSON or YAML.

    Raises:
        InvalidOpenApiError: It is too large, neither JSON nor YAML, or not OpenAPI 3.x.
        MissingExtraError: It is YAML and the extra `openapi` is not installed.
    """
    if len(data) > MAX_DESCRIPTION_BYTES:
        raise InvalidOpenApiError(f"the description is larger than {MAX_DESCRIPTION_BYTES} bytes")
    try:
        text = data if isinstance(data, str) else data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidOpenApiError("the description is not UTF-8 text") from error
    try:
        value: JsonValue = json.loads(text) if text.lstrip()[:1] == "{" else _load_yaml(text)
    except (ValueError, RecursionError) as error:
        raise InvalidOpenApiError(f"the description cannot be parsed: {to_line(str(error))[:300]}") from error
    if not is_object(value) or not isinstance(value.get("openapi"), str):
        kind = "Swagger 2.0" if is_object(value) and "swagger" in value else "another format"
        raise InvalidOpenApiError(f"expected an OpenAPI 3.x description with the key 'openapi', got {kind}")
    if _VERSION.fullmatch(str(value["openapi"])) is None:
        version = to_printable(str(value["openapi"]), 40)
        raise InvalidOpenApiError(f"expected OpenAPI 3.0, 3.1 or 3.2, got version {version!r}")
    return value


def _load_yaml(text: str) -> JsonValue:
    with needs_extra("openapi", purpose="OpenAPI descriptions in YAML"):
        value = load_yaml(text, max_values=MAX_VALUES, keeps_dates=False)
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except TypeError as error:
        raise ValueError(f"a value has no equivalent in JSON: {error}") from error


class ApiDescription:
    """The operations and security schemes of a parsed description."""

    def __init__(self, document: Mapping[str, JsonValue], *, url: str | None = None) -> None:
        """Take a description; `url` is where it was read, for servers with relative URLs."""
        self.document = dict(document)
        self.url = url
        self.problems: list[str] = []
        """Why operations were left out."""

    @property
    def title(self) -> str:
        """The title of the API."""
        info = self.document.get("info")
        return str(info.get("title", "")) if is_object(info) else ""

    @property
    def uses_draft_4(self) -> bool:
        """Whether schemas are in the dialect of OpenAPI 3.0."""
        return str(self.document.get("openapi", "")).startswith("3.0")

    def resolve(self, value: JsonValue) -> JsonValue:
        """Follow the references of a value that is not a schema.

        Raises:
            InvalidOpenApiError: A reference leads outside of the description, nowhere, or in a circle.
        """
        for _ in range(_MAX_REFERENCES):
            if not is_object(value) or not isinstance(value.get("$ref"), str):
                return value
            value = self.look_up(str(value["$ref"]))
        raise InvalidOpenApiError("its references lead in a circle, or through too many steps")

    def look_up(self, reference: str) -> JsonValue:
        """Return what a reference points to.

        Raises:
            InvalidOpenApiError: It leads outside of the description, or nowhere.
        """
        if not reference.startswith("#/"):
            raise InvalidOpenApiError(
                f"the reference {quote_name(reference)} leads outside of the description; bundle it into one file"
            )
        found: JsonValue = self.document
        for step in reference[2:].split("/"):
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            if is_array(found) and key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            elif is_object(found) and key in found:
                found = found[key]
            else:
                raise InvalidOpenApiError(f"the reference {quote_name(reference)} leads nowhere")
        return found

    def get_schemes(self) -> dict[str, JsonObject]:
        """Return the security schemes by name."""
        components = self.document.get("components")
        listed = components.get("securitySchemes") if is_object(components) else None
        found: dict[str, JsonObject] = {}
        for name, given in (listed if is_object(listed) else {}).items():
            scheme = self.resolve(given)
            if is_object(scheme):
                found[name] = dict(scheme)
        return found

    def read_operations(self) -> list[Operation]:
        """Return the operations in the order of the description; those that cannot be used become `problems`."""
        found: list[Operation] = []
        for path, item, method in self._find_methods():
            place = f"{method.upper()} {to_printable(path, 200)}"
            try:
                found.append(self._read_operation(path, item, method))
            except InvalidOpenApiError as error:
                self.problems.append(f"{place} is left out: {error}")
        return found

    def _find_methods(self) -> Iterator[tuple[str, JsonObject, str]]:
        paths = self.document.get("paths")
        for path, given in (paths if is_object(paths) else {}).items():
            try:
                item = self.resolve(given)
            except InvalidOpenApiError as error:
                self.problems.append(f"{to_printable(path, 200)} is left out: {error}")
                continue
            if is_object(item):
                yield from ((path, dict(item), method) for method in _METHODS if is_object(item.get(method)))

    def _read_operation(self, path: str, item: JsonObject, method: str) -> Operation:
        given: JsonObject = item[method]
        if not path.startswith("/"):
            raise InvalidOpenApiError("its path does not start with /")
        parameters = self._read_parameters(item.get("parameters"), given.get("parameters"))
        named = {each.name for each in parameters if each.place == "path"}
        for name in _VARIABLE.findall(path):
            if name not in named:
                raise InvalidOpenApiError(f"its path names {quote_name(name)}, which is not one of its parameters")
        security = given.get("security", self.document.get("security"))
        tags = given.get("tags")
        return Operation(
            id=str(given.get("operationId") or f"{method}_{path}"),
            method=method.upper(),
            path=path,
            base_url=self._read_server(given, item),
            summary=str(given.get("summary") or item.get("summary") or ""),
            description=str(given.get("description") or item.get("description") or ""),
            tags=tuple(str(tag) for tag in tags) if is_array(tags) else (),
            parameters=tuple(parameters),
            body=self._read_body(given.get("requestBody")),
            security=tuple(tuple(each) for each in security if is_object(each)) if is_array(security) else (),
        )

    def _read_parameters(self, *lists: JsonValue) -> list[ApiParameter]:
        """Return the parameters; those of an operation replace those of its path."""
        found: dict[tuple[str, str], ApiParameter] = {}
        for listed in lists:
            for given in listed if is_array(listed) else ():
                parameter = self.resolve(given)
                if not is_object(parameter) or not isinstance(parameter.get("name"), str):
                    raise InvalidOpenApiError("one of its parameters has no name")
                read = _read_parameter(parameter)
                if not (read.place == "header" and read.name.lower() in _IGNORED_HEADERS):
                    found[read.name, read.place] = read
        return list(found.values())

    def _read_body(self, given: JsonValue) -> ApiBody | None:
        body = self.resolve(given)
        content = body.get("content") if is_object(body) else None
        if not is_object(body) or not is_object(content) or not content:
            return None
        choice = next((name for name in content if is_json_type(name)), None)
        choice = choice or next((name for name in content if name.partition(";")[0].strip() == FORM_TYPE), None)
        choice = choice or next((name for name in content if name.startswith("text/")), None)
        if choice is None:
            offered = to_printable(", ".join(content), 200)
            raise InvalidOpenApiError(f"its body is {offered}; expected JSON, a form or text")
        media = content[choice]
        schema = media.get("schema", True) if is_object(media) else True
        return ApiBody(
            media_type=choice,
            schema={"type": "string"} if choice.startswith("text/") else schema,
            is_required=body.get("required") is True,
            description=str(body.get("description") or ""),
        )

    def _read_server(self, *places: JsonObject) -> str | None:
        for place in (*places, self.document):
            listed = place.get("servers")
            first = listed[0] if is_array(listed) and listed else None
            if is_object(first) and isinstance(first.get("url"), str):
                url = _VARIABLE.sub(partial(_get_default, first.get("variables")), str(first["url"]))
                return url if self.url is None else urljoin(self.url, url)
        return None


def _read_parameter(given: JsonObject) -> ApiParameter:
    name, place = str(given["name"]), _PLACES.get(str(given.get("in")))
    if place is None:
        where = to_printable(str(given.get("in")), 40)
        raise InvalidOpenApiError(f"its parameter {quote_name(name)} is in {where!r}, which is unknown")
    content = given.get("content")
    is_json = is_object(content) and any(is_json_type(name) for name in content)
    media = next(iter(content.values()), None) if is_object(content) else None
    schema = media.get("schema", True) if is_object(media) else given.get("schema", True)
    style = str(given.get("style") or ("simple" if place in {"path", "header"} else "form"))
    explode = given.get("explode")
    return ApiParameter(
        name=name,
        place=place,
        schema=schema,
        is_required=place == "path" or given.get("required") is True,
        description=str(given.get("description") or ""),
        style=style,
        is_exploded=explode if isinstance(explode, bool) else style in {"form", "deepObject"},
        is_json=is_json,
    )


def _get_default(variables: JsonValue, found: re.Match[str]) -> str:
    variable = variables.get(found[1]) if is_object(variables) else None
    return str(variable.get("default", "")) if is_object(variable) else ""
