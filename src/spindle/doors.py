"""Lazy package exports: a package lists its public names, and each one loads its module on first use."""

import dis
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module


def open_door(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package that imports its names under `if TYPE_CHECKING:`.

    Those import statements are the only list of the names: type checkers read them, and this function reads them from
    the package's compiled code, which exists even where the source is not shipped.
    """

    @cache
    def homes() -> dict[str, tuple[str, str]]:
        spec = sys.modules[package].__spec__
        loader = getattr(spec, "loader", None)
        found: dict[str, tuple[str, str]] = {}
        module = name = ""
        for step in dis.get_instructions(loader.get_code(package)) if loader else ():
            if step.opname == "IMPORT_NAME":
                module = str(step.argval)
            elif step.opname == "IMPORT_FROM":
                name = str(step.argval)
            elif step.opname == "STORE_NAME" and name:
                found[str(step.argval)] = (module, name)
                name = ""
        return {local: home for local, home in found.items() if home[0] != __name__}

    def load(name: str) -> object:
        if name == "__all__":
            return sorted(homes())
        if name.startswith("__") or name not in homes():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, original = homes()[name]
        is_submodule = module == package
        value = import_module(f"{package}.{name}") if is_submodule else getattr(import_module(module), original)
        vars(sys.modules[package])[name] = value
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes()} - {"TYPE_CHECKING", "open_door"})

    return load, names
