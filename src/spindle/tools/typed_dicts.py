"""`typing.TypedDict` on a Python whose own kind pydantic does not read: made again as that of `typing_extensions`."""

import inspect
from functools import reduce
from types import UnionType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from typing_extensions import TypedDict, is_typeddict

Made = dict[Any, Any]
"""Each class that was made again; one that speaks of itself is in here before its keys are looked at."""

_TRAITS = ("__module__", "__qualname__", "__doc__", "__total__", "__required_keys__", "__optional_keys__")


def made_readable(source: Any) -> Any:
    """Give a class, or a function whose parameters are the arguments, with every TypedDict made again."""
    made: Made = {}
    if not inspect.isfunction(source):
        return _again(source, made)
    signature = inspect.signature(source)
    parameters = [each.replace(annotation=_again(each.annotation, made)) for each in signature.parameters.values()]
    vars(source)["__signature__"] = signature.replace(parameters=parameters)
    source.__annotations__ = {name: _again(hint, made) for name, hint in source.__annotations__.items()}
    return source


def _again(hint: Any, made: Made) -> Any:
    if is_typeddict(hint):
        return made.get(hint) or _new_class(hint, made)
    parts, origin = get_args(hint), get_origin(hint)
    if origin is Literal or not parts:
        return hint
    new = tuple(_again(part, made) for part in parts)
    if all(one is other for one, other in zip(parts, new, strict=True)):
        return hint
    if origin is Annotated:
        return Annotated[new]  # pyright: ignore[reportInvalidTypeForm]  the type and what goes with it, in one tuple
    if origin is UnionType:
        return reduce(lambda one, other: one | other, new)
    return hint.copy_with(new) if hasattr(hint, "copy_with") else origin[new]


def _new_class(old: Any, made: Made) -> Any:
    new: Any = TypedDict(old.__name__, {})  # pyright: ignore[reportArgumentType]  its name is known only now
    made[old] = new
    new.__annotations__ = {name: _again(hint, made) for name, hint in get_type_hints(old, include_extras=True).items()}
    for trait in _TRAITS:
        setattr(new, trait, getattr(old, trait))
    if (config := getattr(old, "__pydantic_config__", None)) is not None:
        new.__pydantic_config__ = config
    return new
