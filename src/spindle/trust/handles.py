"""What a model is shown of an artifact that is kept and not shown: its address, its size, and how to read it."""

from collections.abc import Iterator
from typing import Final, Protocol, TypeGuard

_LEAD: Final = "This result is kept whole and is not shown here. Read the part you need with the tools named below."
_MAX_LINE_CHARS: Final = 512
_MARK: Final = "__spindle_query__"
"""What a method of an artifact carries when a model may ask for it; its `name` is that of the reader tool."""


class ArtifactLike(Protocol):
    """What showing asks of an artifact."""

    async def byte_length(self) -> int:
        """Count the bytes."""
        ...

    async def line_count(self) -> int:
        """Count the lines."""
        ...

    async def as_text(self) -> str:
        """Give the whole content."""
        ...


def is_artifact(value: object) -> TypeGuard[ArtifactLike]:
    """Say whether something can be shown as an artifact."""
    return all(callable(getattr(value, name, None)) for name in ("byte_length", "line_count", "as_text"))


def handle(address: str, artifact: object, *, byte_length: str | None = None, line_count: str | None = None) -> str:
    """Describe an artifact by what is known without reading it, and by the sizes that were found out."""
    facts = {
        "call_id": address,
        "kind": type(artifact).__name__,
        "byte_length": byte_length,
        "line_count": line_count,
        "readers": ", ".join(_readers(type(artifact))) or None,
    }
    lines = (f"{name}: {_line(value)}" for name, value in facts.items() if value is not None)
    return "\n".join((_LEAD, *lines))


async def measured_handle(address: str, artifact: ArtifactLike) -> str:
    """Describe an artifact with its sizes; one that can no longer be read says so."""
    try:
        sizes = str(await artifact.byte_length()), str(await artifact.line_count())
    except Exception as error:  # noqa: BLE001  a result that is gone must not cost the turn its other results
        sizes = (f"unknown, it cannot be read now ({type(error).__name__})", None)
    return handle(address, artifact, byte_length=sizes[0], line_count=sizes[1])


def _readers(kind: type) -> list[str]:
    return list(dict.fromkeys(_marked(kind)))


def _marked(kind: type) -> Iterator[str]:
    for ancestor in reversed(kind.__mro__):
        for member in vars(ancestor).values():
            name = getattr(getattr(member, _MARK, None), "name", None)
            if isinstance(name, str):
                yield name


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_LINE_CHARS else f"{line[: _MAX_LINE_CHARS - 1]}…"
