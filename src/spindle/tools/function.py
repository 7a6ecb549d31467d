"""A Python function as a tool: its name, its description, its parameters."""

import functools
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from inspect import Parameter
from typing import Any, cast

from spindle.errors import InvalidToolError
from spindle.tools.context import ToolContext

_SPHINX = re.compile(r"^\s*:(param|parameter|arg|argument|key|keyword)\b", re.MULTILINE)
_NUMPY = re.compile(r"^\s*(Parameters|Other Parameters)\s*\n\s*-{3,}\s*$", re.MULTILINE)
_GOOGLE = re.compile(r"^\s*(Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments):\s*$", re.MULTILINE)
# Sections that tell a programmer, not a model, what to expect.
_OTHER = re.compile(
    r"^\s*(Returns?|Raises|Yields?|Attributes):\s*$|^\s*(Returns|Raises|Yields)\s*\n\s*-{3,}\s*$|^\s*:(returns?|raises?|rtype)\b",
    re.MULTILINE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Docstring:
    """What a docstring says."""

    description: str
    parameters: dict[str, str] = field(default_factory=dict[str, str])


def read_docstring(text: str) -> Docstring:
    """Read Google, NumPy and Sphinx styles; a docstring without sections is the description as it stands."""
    text = inspect.cleandoc(text)
    if not (_SPHINX.search(text) or _NUMPY.search(text) or _GOOGLE.search(text) or _OTHER.search(text)):
        return Docstring(description=text)
    return _parse(text)


def _parse(text: str) -> Docstring:
    import docstring_parser  # noqa: PLC0415  20 ms to import, and only needed here

    style = docstring_parser.DocstringStyle
    if _SPHINX.search(text):
        chosen = style.REST
    elif _NUMPY.search(text):
        chosen = style.NUMPYDOC
    elif _GOOGLE.search(text):
        chosen = style.GOOGLE
    else:
        chosen = style.AUTO
    try:
        parsed = docstring_parser.parse(text, style=chosen)
    except docstring_parser.ParseError:
        return Docstring(description=text)
    return Docstring(
        description=(parsed.description or "").strip(),
        parameters={
            each.arg_name.lstrip("*"): " ".join(each.description.split()) for each in parsed.params if each.description
        },
    )


AnyFunction = Callable[..., Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameters:
    """A function's parameters with their types resolved."""

    shown: tuple[Parameter, ...]
    """What the model fills in, all keyword-only, in order."""
    contexts: tuple[str, ...]
    """What we fill in: the parameters annotated `ToolContext`."""


@dataclass(frozen=True, kw_only=True)
class Function:
    """A function that is a tool; its docstring and its types are read when someone looks."""

    call: AnyFunction
    """What to call: the function, the bound method, the partial, the callable object."""
    plain: AnyFunction
    """The function that carries the code, the docstring and the annotations."""
    name: str
    signature: inspect.Signature
    namespace: Mapping[str, Any]
    """Local names that string annotations may mean."""

    @cached_property
    def docstring(self) -> Docstring:
        """The docstring, split."""
        return read_docstring(self.plain.__doc__ or "")

    @cached_property
    def parameters(self) -> Parameters:
        """The parameters, with the context set apart."""
        return _read_parameters(self)

    def parameter_texts(self) -> Mapping[str, str]:
        """Say what each parameter means, as far as the docstring tells."""
        return self.docstring.parameters

    def collector(self) -> AnyFunction:
        """Make a function with the shown parameters that gives back the arguments it was called with.

        The validator of its signature then validates, fills in defaults and refuses unknown names, all at once.
        """

        def collect(**arguments: Any) -> dict[str, Any]:
            return arguments

        shown = self.parameters.shown
        annotated = {each.name: each.annotation for each in shown if each.annotation is not Parameter.empty}
        vars(collect)["__signature__"] = inspect.Signature(shown)
        collect.__annotations__ = annotated
        return collect

    def handler(self) -> Callable[[dict[str, Any], Any, Any], Any]:
        """Make the handler `(args, ctx, meta)` that calls the function by keywords."""
        call, contexts = self.call, self.parameters.contexts

        def handle(args: dict[str, Any], _ctx: Any, _meta: Any) -> Any:
            return call(**args)

        def handle_with_context(args: dict[str, Any], ctx: Any, _meta: Any) -> Any:
            return call(**args, **dict.fromkeys(contexts, ctx))

        return handle_with_context if contexts else handle


def read_function(call: AnyFunction, *, name: str | None, depth: int) -> Function:
    """Look at a function as far as is possible without resolving its annotations.

    `depth` is how many frames out the function is being made a tool.

    Raises:
        InvalidToolError: It cannot be a tool.
    """
    plain = _plain(call)
    name = name or _name(call, plain)
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError) as error:
        message = f"tool {name!r}: {call!r} has no signature Python can read; wrap it in a function of your own"
        raise InvalidToolError(message, tool=name, field="handler") from error
    if isinstance(cast("object", call), functools.partial):
        # What it has filled in is not the model's to give.
        left = [each for each in signature.parameters.values() if each.name not in cast("Any", call).keywords]
        signature = signature.replace(parameters=left)
    parameters = list(signature.parameters.values())
    if plain is call:
        _check_bound(plain, parameters, tool=name)
    for parameter in parameters:
        _check_kind(parameter, tool=name)
    return Function(
        call=call,
        plain=plain,
        name=name,
        signature=signature,
        namespace=_namespace(plain, parameters, depth + 1),
    )


def _plain(call: AnyFunction) -> AnyFunction:
    if isinstance(call, functools.partial):
        return _plain(cast("AnyFunction", call.func))
    if isinstance(call, (types.MethodType, staticmethod, classmethod)):
        return _plain(cast("Any", call).__func__)
    if (wrapped := getattr(call, "__wrapped__", None)) is not None:
        return _plain(wrapped)
    if isinstance(call, (types.FunctionType, types.BuiltinFunctionType)):
        return call
    return _plain(type(call).__call__)


def _name(call: AnyFunction, plain: AnyFunction) -> str:
    if plain.__name__ == "__call__":
        return type(call).__name__
    if plain.__name__ == "<lambda>":
        raise InvalidToolError("a lambda has no name of its own; give it one: tool(name=…)", field="name")
    return plain.__name__


def _check_bound(plain: AnyFunction, parameters: list[Parameter], *, tool: str) -> None:
    in_a_class = "." in plain.__qualname__.rpartition("<locals>.")[2]
    if in_a_class and parameters and parameters[0].name in {"self", "cls"}:
        reason = "belongs to a method that is not bound yet; make the tool of the bound method, tool(instance.method)"
        raise _unfit(parameters[0], reason, tool)


def _check_kind(parameter: Parameter, *, tool: str) -> None:
    if parameter.kind is Parameter.VAR_POSITIONAL:
        raise _unfit(parameter, "takes arguments without names, which a model cannot give; use a list parameter", tool)
    if parameter.kind is Parameter.POSITIONAL_ONLY:
        raise _unfit(parameter, "is positional-only, and a model gives arguments by name; remove the '/'", tool)


def _unfit(parameter: Parameter, reason: str, tool: str) -> InvalidToolError:
    return InvalidToolError(f"tool {tool!r}: parameter {str(parameter)!r} {reason}", tool=tool, field=parameter.name)


def _namespace(plain: AnyFunction, parameters: list[Parameter], depth: int) -> Mapping[str, Any]:
    if not any(isinstance(each.annotation, str) for each in parameters):
        return {}
    frame = sys._getframe(depth + 1)  # pyright: ignore[reportPrivateUsage]  postponed annotations may name local classes
    local = {} if frame.f_locals is frame.f_globals else dict(frame.f_locals)
    cells = zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=False)
    return local | {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _read_parameters(function: Function) -> Parameters:
    try:
        hints = _parameter_hints(function)
    except Exception as error:
        message = (
            f"tool {function.name!r}: an annotation cannot be resolved ({error}); import what it names at module level"
        )
        raise InvalidToolError(message, tool=function.name, field="handler") from error
    shown: list[Parameter] = []
    contexts: list[str] = []
    for parameter in function.signature.parameters.values():
        hint: Any = hints.get(parameter.name, parameter.annotation)
        if _is_context(hint):
            contexts.append(parameter.name)
        elif parameter.kind is Parameter.VAR_KEYWORD:
            shown.append(parameter.replace(annotation=hint))
        else:
            shown.append(parameter.replace(annotation=hint, kind=Parameter.KEYWORD_ONLY))
    return Parameters(shown=tuple(shown), contexts=tuple(contexts))


def _parameter_hints(function: Function) -> dict[str, Any]:
    # What it returns may be named for type checkers only, or in a place we cannot see; a model is not told of it.
    plain = function.plain
    given: dict[str, Any] = getattr(plain, "__annotations__", {})
    parameters = types.SimpleNamespace(__annotations__={name: given[name] for name in given if name != "return"})
    names = getattr(plain, "__globals__", {})
    return typing.get_type_hints(parameters, names, dict(function.namespace), include_extras=True)


def _is_context(hint: Any) -> bool:
    if isinstance(hint, type):
        return issubclass(hint, ToolContext)
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        return _is_context(typing.get_args(hint)[0])
    if origin in {typing.Union, types.UnionType}:
        return any(_is_context(each) for each in typing.get_args(hint))
    return False
