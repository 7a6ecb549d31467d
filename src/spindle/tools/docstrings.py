"""A function's docstring, split into what the tool does and what each parameter means."""

import inspect
import re
from dataclasses import dataclass, field

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
