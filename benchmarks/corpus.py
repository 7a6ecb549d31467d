"""`python -m benchmarks.corpus`: what each dialect loses of the public corpus of tool schemas, keyword by keyword."""

import json
import os
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema_rs

from spindle.bridges import ALL, Lowered, Rules, lower
from spindle.errors import CannotLowerError
from spindle.tools import repair_schema


@dataclass(frozen=True, slots=True)
class CorpusTool:
    """A published tool, with its schema repaired if it was invalid."""

    source: str
    name: str
    description: str
    schema: dict[str, Any]


def corpus(folder: Path) -> list[CorpusTool]:
    """Read every tool of the corpus: of MCP servers, of one large server, of a benchmark of function calling."""
    return [*_livemcp(folder), *_github(folder), *_bfcl(folder)]


def _livemcp(folder: Path) -> Iterator[CorpusTool]:
    servers: list[Any] = json.loads((folder / "livemcp" / "tools.json").read_text("utf-8"))
    for server in servers:
        for listed in server["tools"].values():
            for tool in listed["tools"]:
                yield CorpusTool("livemcp", tool["name"], tool.get("description") or tool["name"], _valid(tool))


def _valid(tool: dict[str, Any]) -> dict[str, Any]:
    """One published schema is not valid, and no tool can be made of it as it is."""
    schema: dict[str, Any] = tool["inputSchema"]
    return schema if jsonschema_rs.meta.is_valid(schema) else repair_schema(schema)[0]


def _github(folder: Path) -> Iterator[CorpusTool]:
    for path in sorted((folder / "github" / "toolsnaps").glob("*.snap")):
        tool: dict[str, Any] = json.loads(path.read_text("utf-8"))
        yield CorpusTool("github", tool["name"], tool["description"], tool["inputSchema"])


def _bfcl(folder: Path) -> Iterator[CorpusTool]:
    for part in ("simple_python", "multiple"):
        for line in (folder / "bfcl" / f"BFCL_v4_{part}.jsonl").read_text("utf-8").splitlines():
            for function in json.loads(line)["function"]:
                schema, _ = repair_schema(function["parameters"])
                yield CorpusTool("bfcl", function["name"], function["description"], schema)


def forms() -> list[tuple[str, Rules, Rules | None]]:
    """Name every form of every dialect: its rules, and the loose ones it falls back to where it is strict."""
    loose = [(dialect.name, dialect.rules, None) for dialect in ALL]
    strict = [(f"{each.name} strict", each.strict_rules, each.rules) for each in ALL if each.strict_rules is not None]
    return sorted([*loose, *strict], key=lambda form: form[0])


@dataclass(slots=True)
class Losses:
    """What became of the corpus in one form of a dialect."""

    lossless: int = 0
    loose: int = 0
    """Tools sent in the loose form, because the strict one cannot express them."""
    refused: list[str] = field(default_factory=list[str])
    kept: Counter[str] = field(default_factory=Counter[str])
    rewritten: Counter[str] = field(default_factory=Counter[str])
    dropped: Counter[str] = field(default_factory=Counter[str])
    reasons: Counter[str] = field(default_factory=Counter[str])

    def count(self, lowered: Lowered) -> None:
        """Add one tool."""
        self.lossless += not lowered.losses
        self.kept.update(pointer.rpartition("/")[2] for pointer in lowered.kept)
        for loss in lowered.losses:
            (self.rewritten if loss.action == "rewritten" else self.dropped)[loss.keyword] += 1


def measure(tools: list[CorpusTool], rules: Rules, fallback: Rules | None) -> Losses:
    """Lower every tool, and count."""
    losses = Losses()
    for tool in tools:
        try:
            losses.count(lower(tool.schema, rules))
        except CannotLowerError as error:
            if fallback is None:
                losses.refused.append(f"{tool.source} {tool.name}: {error}")
            else:
                losses.loose += 1
                losses.reasons[error.why] += 1
    return losses


def report(tools: list[CorpusTool]) -> str:
    """Write the table of every form, and why some tools were sent in another form or not at all."""
    lines: list[str] = []
    for name, rules, fallback in forms():
        losses = measure(tools, rules, fallback)
        sent = len(tools) - losses.loose - len(losses.refused)
        summary = f"{sent} sent, {losses.lossless} of them without a loss, {len(losses.refused)} refused"
        if fallback is not None:
            summary += f", {losses.loose} sent in the loose form"
        lines += [f"{name}: {summary}", ""]
        keywords = sorted(
            {*losses.kept, *losses.rewritten, *losses.dropped}, key=lambda each: (-losses.kept[each], each)
        )
        rows = [
            (f"  {each}", str(losses.kept[each]), str(losses.rewritten[each]), str(losses.dropped[each]))
            for each in keywords
            if losses.rewritten[each] or losses.dropped[each]
        ]
        if rows:
            lines += [_table(rows), ""]
        lines += [f"  {count} in the loose form: {why}" for why, count in losses.reasons.most_common()]
        lines += [f"  refused {why}" for why in losses.refused]
        lines.append("")
    return "\n".join(lines)


def _table(rows: list[tuple[str, ...]]) -> str:
    cells = [("  keyword", "kept", "rewritten", "dropped"), *rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(cell.rjust(width) if place else cell.ljust(width) for place, (cell, width) in enumerate(pairs))
        for pairs in (zip(line, widths, strict=True) for line in cells)
    ]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Print the report."""
    here = Path(__file__).resolve().parent.parent
    default = Path(os.environ.get("SPINDLE_DATA", here.parent / "shared" / "data")) / "tools"
    parser = ArgumentParser(prog="python -m benchmarks.corpus", description="What each dialect loses of real schemas.")
    parser.add_argument("folder", nargs="?", type=Path, default=default, help=f"the corpus (default: {default.name})")
    folder: Path = parser.parse_args(argv).folder
    if not folder.is_dir():
        parser.error(f"the corpus is not at {folder}; name its folder, or set SPINDLE_DATA")
    tools = corpus(folder)
    print(f"{len(tools)} tools: {', '.join(f'{count} of {source}' for source, count in sources(tools).items())}\n")
    print(report(tools))
    return 0


def sources(tools: list[CorpusTool]) -> Counter[str]:
    """Count the tools of each source."""
    return Counter(tool.source for tool in tools)


if __name__ == "__main__":
    sys.exit(main())
