"""What `.gitignore` and `.ignore` files leave out; needs the extra `kit`."""

from dataclasses import dataclass
from typing import Any, Protocol

from spindle.extras import needs_extra

IGNORE_FILES = (".ignore", ".gitignore")
"""In the order of who has the last word."""
ALWAYS_LEFT_OUT = frozenset({".git", ".hg", ".svn"})
MAX_LINES = 1_000
MAX_LINE_CHARS = 1_000


class Spec(Protocol):
    """Patterns of one file, in pathspec's shape."""

    def check_file(self, file: str) -> Any:
        """Say whether the last pattern that fits takes the file in (`include`)."""
        ...


@dataclass(frozen=True, slots=True)
class Rules:
    """Patterns that count from one folder downwards."""

    folder: str
    """Empty, or ending with a slash."""
    spec: Spec


@dataclass(frozen=True, slots=True)
class Ignoring:
    """All rules that count in a folder: of each kind of file, those of the nearest folder last."""

    by_kind: tuple[tuple[Rules, ...], ...] = tuple(() for _ in IGNORE_FILES)

    def below(self, folder: str, texts: dict[str, str]) -> "Ignoring":
        """Add the rules of the ignore files that `folder` holds."""
        if not texts:
            return self
        prefix = "" if folder in ("", ".") else f"{folder}/"
        kinds = zip(IGNORE_FILES, self.by_kind, strict=True)
        return Ignoring(
            tuple(
                (*rules, Rules(prefix, compile_patterns(texts[name].splitlines()))) if name in texts else rules
                for name, rules in kinds
            )
        )

    def leaves_out(self, path: str, *, is_folder: bool) -> bool:
        """Whether a path is ignored; the folders above it were asked before."""
        if path.rpartition("/")[2] in ALWAYS_LEFT_OUT:
            return True
        asked = comparable(path) + ("/" if is_folder else "")
        for kind in self.by_kind:
            for rules in reversed(kind):
                verdict = rules.spec.check_file(asked.removeprefix(rules.folder)).include
                if verdict is not None:
                    return bool(verdict)
        return False


def compile_patterns(lines: list[str]) -> Spec:
    """Compile patterns of the gitignore dialect, in an engine whose cost cannot explode; broken ones count for nothing.

    Raises:
        MissingExtraError: The package is not there.
    """
    with needs_extra("kit"):
        from pathspec import GitIgnoreSpec  # noqa: PLC0415 - an extra
    kept = [line for line in lines[:MAX_LINES] if len(line) <= MAX_LINE_CHARS and comparable(line) == line]
    try:
        return GitIgnoreSpec.from_lines(kept, backend="re2")
    except ValueError:
        return GitIgnoreSpec.from_lines([line for line in kept if _is_pattern(line)], backend="re2")


def comparable(name: str) -> str:
    """A name without halves of characters, which no pattern has."""
    return name.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _is_pattern(line: str) -> bool:
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - an extra

    try:
        GitIgnoreSpec.from_lines([line], backend="re2")
    except ValueError:
        return False
    return True
