"""Local tools of a configuration: those of the kit and of Python modules."""

import inspect
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any, cast

from spindle import cli, kit
from spindle.capabilities.resolve import Backends, find_missing_backends
from spindle.cli.config.loader import Config
from spindle.cli.config.local_code import guard_imports
from spindle.cli.runtime_servers import get_writable_folders
from spindle.errors import InvalidConfigError, SpindleError, UsageError
from spindle.text import did_you_mean
from spindle.tools.declaration import Tool
from spindle.tools.registry import ToolRegistry

_ONLY_BY_NAME = ("people",)
"""Toolsets that `kit = true` does not include: they need a person who answers."""
_NEEDED = {"process": "reach.commands", "network": "reach.hosts"}


def build_local_registry(config: Config, backends: Backends) -> ToolRegistry:
    """Register the tools of the kit, then those of each module.

    Raises:
        InvalidConfigError: A toolset or module does not exist or has no tools, or two tools have the same name.
    """
    registry = ToolRegistry()
    if config.tools.kit is not False:
        registry.register_all(_load_kit_tools(config, backends))
    guard_imports(config.accepted_code)
    for folder in reversed(config.python_path):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    for spot in config.tools.modules:
        try:
            registry.register_all(_to_tools(load_object(config, spot), config, spot))
        except InvalidConfigError:
            raise
        except SpindleError as error:
            raise config.error(("tools", "modules"), f"{spot}: {error}") from error
    if config.flow is not None:
        cli.declare_tools(config, registry)
    return registry


def _load_kit_tools(config: Config, backends: Backends) -> list[Tool]:
    named = config.tools.kit if isinstance(config.tools.kit, tuple) else None
    for name in named or ():
        if name not in kit.TOOLSETS:
            hint = did_you_mean(name, kit.TOOLSETS, f"known toolsets: {', '.join(kit.TOOLSETS)}")
            raise config.error(("tools", "kit"), f"unknown toolset {name!r}; {hint}")
    wanted = tuple(each for each in kit.TOOLSETS if each not in _ONLY_BY_NAME) if named is None else named
    try:
        tools = kit.kit_tools(wanted, http_secrets=config.tools.http_secrets or None)
    except UsageError as error:
        raise config.error(("tools", "http_secrets"), str(error)) from error
    if named is not None:
        for tool in tools:
            for need in find_missing_backends(tool.capabilities, backends):
                what = _NEEDED.get(need, "reach")
                raise config.error(("tools", "kit"), f"toolset {tool.toolset!r} requires {need}; grant it with {what}")
    is_read_only = not get_writable_folders(config)
    return [
        tool
        for tool in tools
        if not find_missing_backends(tool.capabilities, backends) and not (is_read_only and _writes(tool))
    ]


def _writes(tool: Tool) -> bool:
    files = tool.capabilities.files
    return files is not None and bool(files.write)


def load_object(config: Config, spot: str, key: tuple[str, ...] = ("tools", "modules")) -> object:
    """Import and return the object `package.module:name`.

    Raises:
        InvalidConfigError: The module does not exist, cannot be imported, or has no such name.
    """
    module_name, _, name = spot.partition(":")
    try:
        value: Any = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            hint = "install it, or add its folder to tools.python_path"
            raise config.error(key, f"no module named {error.name!r}; {hint}") from error
        raise config.error(key, f"{module_name} requires the module {error.name!r}, which is not installed") from error
    except Exception as error:
        raise config.error(
            key, f"importing {module_name} failed with {type(error).__name__}: {error!s:.200}"
        ) from error
    for part in name.split("."):
        if not hasattr(value, part):
            hint = did_you_mean(part, (each for each in dir(value) if each[0] != "_"))
            raise config.error(key, f"{module_name} has no {part!r}{hint and f'; {hint}'}")
        value = getattr(value, part)
    return value


def _to_tools(value: object, config: Config, spot: str) -> ToolRegistry | list[Tool]:
    if callable(value) and not isinstance(value, (Tool, ToolRegistry)):
        try:
            value = value()
        except Exception as error:
            raise config.error(
                ("tools", "modules"), f"{spot}() failed with {type(error).__name__}: {error!s:.200}"
            ) from error
        if inspect.iscoroutine(value):
            value.close()
            raise config.error(("tools", "modules"), f"{spot} is async; expected a sync function that returns tools")
    if isinstance(value, Tool):
        return [value]
    if isinstance(value, ToolRegistry):
        return value
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return list(cast("Iterable[Tool]", value))
    kind = type(value).__name__
    expected = "expected a tool, a list of tools, a registry or a function that returns one"
    raise config.error(("tools", "modules"), f"{spot} is a {kind}; {expected}")
