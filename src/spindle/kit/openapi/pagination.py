"""Pagination of an API: how the next page of a response is requested."""

import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from spindle.json_types import JsonObject, JsonValue, is_object
from spindle.kit.openapi.document import ApiParameter
from spindle.text import to_printable

_POSITIONS: Final = (
    *("page", "page_number", "pageNumber", "offset", "start", "skip", "cursor", "after", "starting_after"),
    *("page_token", "pageToken", "next_token", "nextToken", "continuation_token", "continuationToken", "marker"),
)
_SIZES: Final = ("per_page", "perPage", "page_size", "pageSize", "limit", "count", "top", "max_results", "maxResults")
_TOKENS: Final = (
    *("next_page_token", "nextPageToken", "next_cursor", "nextCursor", "next_token", "nextToken", "next_page"),
    *("continuation_token", "continuationToken", "next", "nextLink", "next_link", "@odata.nextLink", "marker"),
)
_WRAPPERS: Final = ("pagination", "paging", "page", "meta", "links", "_links", "response_metadata", "page_info")
_NEXT_LINK = re.compile(r'<([^<>]{1,4000})>\s*(?:;[^,<>]{0,400})?;\s*rel="?next"?', re.IGNORECASE)
_MAX_VALUE: Final = 500


def find_page_parameters(parameters: Iterable[ApiParameter]) -> list[str]:
    """Return the names of the query parameters that choose a page, positions before sizes."""
    named = [each.name for each in parameters if each.place == "query"]
    return [name for name in named if name in _POSITIONS] + [name for name in named if name in _SIZES]


def describe_next_page(
    parameters: Mapping[str, ApiParameter], args: JsonObject, headers: Mapping[str, str], body: JsonValue
) -> str | None:
    """Return how the next page is requested, or `None` if the response says nothing about one.

    `parameters` maps the arguments of the tool to parameters. The values are those of the API and untrusted.
    """
    link = _NEXT_LINK.search(headers.get("link", "")[:20_000])
    if link is not None:
        return _describe_link(parameters, args, link[1])
    token = _find_token(body)
    if token is None:
        return None
    if token.startswith(("http://", "https://", "/")):
        return _describe_link(parameters, args, token)
    position = next((name for name, each in parameters.items() if each.name in _POSITIONS), None)
    return None if position is None else _write_hint([(position, token)])


def _describe_link(parameters: Mapping[str, ApiParameter], args: JsonObject, url: str) -> str | None:
    try:
        pairs = parse_qsl(urlsplit(url).query)
    except ValueError:
        return None
    by_name = {each.name: name for name, each in parameters.items() if each.place == "query"}
    changed = [
        (by_name[key], value)
        for key, value in pairs
        if key in by_name and str(args.get(by_name[key], "")) != value and (key in _POSITIONS or key in _SIZES)
    ]
    return _write_hint(changed) if changed else None


def _find_token(body: JsonValue) -> str | None:
    if not is_object(body):
        return None
    for place in (body, *(body[name] for name in _WRAPPERS if is_object(body.get(name)))):
        for name in _TOKENS:
            value = place.get(name)
            value = value.get("href") if is_object(value) else value
            if isinstance(value, str | int) and not isinstance(value, bool) and str(value):
                return str(value)
    return None


def _write_hint(changed: Iterable[tuple[str, str]]) -> str:
    given = ", ".join(f"{name}={to_printable(value, _MAX_VALUE)}" for name, value in changed)
    return f"There are more results: call again with {given}."
