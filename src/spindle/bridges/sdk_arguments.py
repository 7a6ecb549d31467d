"""A request as an SDK's method takes it: what it does not know goes into the body all the same."""

from collections.abc import Mapping
from inspect import Parameter, signature
from typing import Any


def arguments_of(create: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    """Split a request into what the SDK knows and what only the server does."""
    known = signature(create).parameters
    if any(each.kind is Parameter.VAR_KEYWORD for each in known.values()):
        return dict(request)  # somebody stands before the SDK, and hands on what they are given
    unknown = {name: value for name, value in request.items() if name not in known}
    arguments = {name: value for name, value in request.items() if name in known}
    if unknown:
        arguments["extra_body"] = {**(arguments.get("extra_body") or {}), **unknown}
    return arguments
