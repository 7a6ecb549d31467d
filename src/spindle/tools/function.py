"""Reading of Python functions as tools: name, docstring, signature and parameters."""

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
from spindle.text import to_line
from spindle.tools.context import ToolContext

_SPHINX = re.compile(r"^\s*:(param|parameter|arg|argument|key|keyword)\b", re.MULTILINE)
_NUMPY = re.compile(r"^\s*(Parameters|Other Parameters)\s*\n\s*-{3,}\s*$", re.MULTILINE)
_GOOGLE = re.compile(r"^\s*(Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments):\s*$", re.MULTILINE)
# Sections for programmers, which a model does not need.
_OTHER = re.compile(
    r"^\s*(Returns?|Raises|Yields?|Attributes):\s*$|^\s*(Returns|Raises|Yields)\s*\n\s*-{3,}\s*$|^\s*:(returns?|raises?|rtype)\b",
    re.MULTILINE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Docstring:
    """A parsed docstring: the description, and the text of each parameter."""

    description: str
    parameters: dict[str, str] = field(default_factory=dict[str, str])


def parse_docstring(text: str) -> Docstring:
    """Parse a docstring in Google, NumPy or Sphinx style; without sections, all of it is the description."""
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
        parameters={each.arg_name.lstrip("*"): to_line(each.description) for each in parsed.params if each.description},
    )


AnyFunction = Callable[..., Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameters:
    """A function's parameters with resolved types."""

    visible: tuple[Parameter, ...]
    """The parameters the model fills in, all keyword-only, in order."""
    contexts: tuple[str, ...]
    """The parameters annotated `ToolContext`, which are injected."""


@dataclass(frozen=True, kw_only=True)
class Function:
    """A function used as a tool; its docstring and types are read on first access."""

    call: AnyFunction
    """The callable: the function, bound method, partial or callable object."""
    underlying: AnyFunction
    """The underlying function with the code, the docstring and the annotations."""
    name: str
    signature: inspect.Signature
    namespace: Mapping[str, Any]
    """Local names that string annotations may refer to."""

    @cached_property
    def docstring(self) -> Docstring:
        """The parsed docstring."""
        return parse_docstring(self.underlying.__doc__ or "")

    @cached_property
    def parameters(self) -> Parameters:
        """The parameters, with the context parameters separated."""
        return _read_parameters(self)

    def parameter_texts(self) -> Mapping[str, str]:
        """Return the docstring's text for each parameter it documents."""
        return self.docstring.parameters

    def build_collector(self) -> AnyFunction:
        """Build a function with the shown parameters that returns the arguments it is called with.

        Pydantic's validator for that function validates, fills in defaults and rejects unknown names in one step.
        """

        def collect(**arguments: Any) -> dict[str, Any]:
            return arguments

        shown = self.parameters.visible
        annotated = {each.name: each.annotation for each in shown if each.annotation is not Parameter.empty}
        vars(collect)["__signature__"] = inspect.Signature(shown)
        collect.__annotations__ = annotated
        return collect

    def build_handler(self) -> Callable[[dict[str, Any], Any, Any], Any]:
        """Build the handler `(args, ctx, meta)` that calls the function with keyword arguments."""
        call, contexts = self.call, self.parameters.contexts

        def handle(args: dict[str, Any], _ctx: Any, _meta: Any) -> Any:
            return call(**args)

        def handle_with_context(args: dict[str, Any], ctx: Any, _meta: Any) -> Any:
            return call(**args, **dict.fromkeys(contexts, ctx))

        return handle_with_context if contexts else handle


def read_function(call: AnyFunction, *, name: str | None, depth: int) -> Function:
    """Read a function as a tool without resolving its annotations.

    `depth` is the number of stack frames up to the code that creates the tool.

    Raises:
        InvalidToolError: The function cannot be used as a tool.
    """
    plain = _plain(call)
    name = name or _name(call, plain)
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError) as error:
        message = f"Tool {name!r}: {call!r} has no readable signature. Wrap it in a Python function."
        raise InvalidToolError(message, tool=name, field="handler") from error
    if isinstance(cast("object", call), functools.partial):
        # The model must not set the arguments that the partial has already bound.
        left = [each for each in signature.parameters.values() if each.name not in cast("Any", call).keywords]
        signature = signature.replace(parameters=left)
    parameters = list(signature.parameters.values())
    if plain is call:
        _check_bound(plain, parameters, tool=name)
    for parameter in parameters:
        _check_kind(parameter, tool=name)
    return Function(
        call=call,
        underlying=plain,
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
        raise InvalidToolError("A lambda has no name. Pass one: tool(name=…).", field="name")
    return plain.__name__


def _check_bound(plain: AnyFunction, parameters: list[Parameter], *, tool: str) -> None:
    in_a_class = "." in plain.__qualname__.rpartition("<locals>.")[2]
    if in_a_class and parameters and parameters[0].name in {"self", "cls"}:
        reason = "belongs to an unbound method; create the tool from the bound method: tool(instance.method)"
        raise _unfit(parameters[0], reason, tool)


def _check_kind(parameter: Parameter, *, tool: str) -> None:
    if parameter.kind is Parameter.VAR_POSITIONAL:
        raise _unfit(parameter, "takes positional arguments, but a model passes them by name; use a list", tool)
    if parameter.kind is Parameter.POSITIONAL_ONLY:
        raise _unfit(parameter, "is positional-only, but a model passes arguments by name; remove the '/'", tool)


def _unfit(parameter: Parameter, reason: str, tool: str) -> InvalidToolError:
    return InvalidToolError(f"Tool {tool!r}: parameter {str(parameter)!r} {reason}.", tool=tool, field=parameter.name)


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
            f"Tool {function.name!r}: an annotation cannot be resolved ({error}). Import its names at module level."
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
    return Parameters(visible=tuple(shown), contexts=tuple(contexts))


def _parameter_hints(function: Function) -> dict[str, Any]:
    # The return annotation may not be resolvable at run time, and the schema does not use it.
    plain = function.underlying
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
