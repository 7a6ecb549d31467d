"""Tools of the APIs that `[openapi]` names: read each description, and register a tool for each operation."""

from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from spindle import cli
from spindle.capabilities.declare import CallScope, Capabilities
from spindle.capabilities.network.handle import Network
from spindle.capabilities.resolve import Backends, close_handles, find_missing_backends, open_handles, validate
from spindle.cli.config.loader import Config
from spindle.cli.config.schema_servers import OpenApiEntry
from spindle.errors import (
    CapabilityError,
    InvalidOpenApiError,
    NetworkError,
    SpindleError,
    ToolAlreadyRegisteredError,
)
from spindle.events import Events
from spindle.kit import openapi
from spindle.tools.registry import ToolRegistry

READ_SECONDS = 20.0
"""How long the description of an API may take to arrive."""
_ACCEPT = {"accept": "application/json, application/yaml;q=0.9, */*;q=0.5"}


async def register_apis(config: Config, registry: ToolRegistry, backends: Backends, events: Events) -> None:
    """Register the tools of the enabled APIs; one whose description cannot be fetched emits a warning.

    Raises:
        InvalidConfigError: A description is invalid, or a host is not granted.
        MissingExtraError: A description is in YAML, and the extra `openapi` is not installed.
    """
    for name, entry in config.apis.items():
        if not entry.enabled:
            continue
        key = ("openapi", "servers", name)
        try:
            data = await _read_description(entry, backends)
        except InvalidOpenApiError as error:
            raise config.error(key, str(error)) from error
        except (SpindleError, TimeoutError) as error:
            if isinstance(error, CapabilityError):
                raise config.error((*key, "url"), f"{error}; add its host to reach.hosts") from error
            reason = str(error) or f"its description did not arrive within {READ_SECONDS:g} s"
            events.warn(f"API {name!r} is not available: {reason}", source="openapi")
            continue
        try:
            built = await anyio.to_thread.run_sync(_build, name, entry, data)
            missing = next((each for tool in built.tools for each in validate(tool, backends)), None)
            if missing is not None:
                raise config.error(key, f"{missing.message}; add the host of the API to reach.hosts")
            registry.register_all(built.tools, plugin_id=f"openapi:{name}")
        except (InvalidOpenApiError, ToolAlreadyRegisteredError) as error:
            raise config.error(key, str(error)) from error
        for problem in built.problems:
            events.warn(f"API {name!r}: {problem}", source="openapi")
    if config.flow is not None:
        cli.declare_tools(config, registry)


def _build(name: str, entry: OpenApiEntry, data: bytes) -> "openapi.ApiTools":
    return openapi.build_api_tools(
        openapi.parse_description(data),
        name=name,
        url=entry.url,
        base_url=entry.base_url,
        secrets=entry.secrets,
        operations=entry.operations,
        exclude=entry.exclude,
        requires_approval=entry.requires_approval,
        trusted=entry.trusted,
        timeout_seconds=entry.timeout_seconds,
        max_result_chars=entry.max_result_chars,
    )


async def _read_description(entry: OpenApiEntry, backends: Backends) -> bytes:
    if entry.file is not None:
        try:
            return await anyio.to_thread.run_sync(Path(entry.file).read_bytes)
        except OSError as error:
            raise InvalidOpenApiError(f"{entry.file}: cannot read the file: {error.strerror}") from error
    url = entry.url or ""
    needs = Capabilities(network=[urlsplit(url).hostname or ""])
    if find_missing_backends(needs, backends):
        raise CapabilityError(f"no hosts are granted, so {url} cannot be read")
    opened = open_handles(needs, backends, CallScope(tool="openapi", session_id="openapi"))
    network = cast("Network", (opened or {}).get("network"))
    try:
        with anyio.fail_after(READ_SECONDS):
            response = await network.get(url, headers=_ACCEPT)
            data = await response.bytes()
    finally:
        await close_handles(opened)
    if response.status >= 300:
        raise NetworkError(
            f"{url} answered with HTTP {response.status}", host=urlsplit(url).hostname or "", reason="protocol"
        )
    return data
