"""`spindle spool …`: read and remove large results stored in full."""

import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import anyio
from cyclopts import App, Parameter
from cyclopts.completion import CompletionContext

from spindle import turns
from spindle.artifacts.artifact import Artifact
from spindle.artifacts.readers import IndexedReader
from spindle.artifacts.spool import Spool, SpoolEntry
from spindle.cli.completers import read_config
from spindle.cli.config.loader import Config
from spindle.cli.main import NOT_FOUND, OK, USAGE
from spindle.cli.options import DEFAULT_CONFIG_OPTIONS, ConfigOptions, Json, build_unknown_error
from spindle.cli.output import Output, format_age, format_bytes, print_message
from spindle.cli.runtime_stores import build_journal, build_spool, list_spool_entries
from spindle.errors import ArtifactQueryError, CommandError, SpindleError, UsageError
from spindle.json_types import JsonObject


async def resolve_entry(config: Config, given: str) -> tuple[Spool, SpoolEntry | None, list[str]]:
    """Find an entry by its id, or by a unique end or start of it; without a match, return all known ids.

    Raises:
        UsageError: Several ids match.
    """
    spool, entries = build_spool(config), await list_spool_entries(config)
    exact = next((entry for entry in entries if entry.id == given), None)
    if exact is not None:
        return spool, exact, []
    fitting = [entry for entry in entries if entry.id.rpartition("/")[2] == given]
    fitting = fitting or [
        entry for entry in entries if given and (entry.id.endswith(given) or entry.id.startswith(given))
    ]
    if len(fitting) > 1:
        some = ", ".join(entry.id for entry in fitting[:3])
        raise UsageError(f"{given!r} matches {len(fitting)} artifacts: {some}{' …' if fitting[3:] else ''}", field="id")
    return spool, fitting[0] if fitting else None, [entry.id for entry in entries]


def artifact_ids(context: CompletionContext) -> list[str]:
    """Return the ids of the artifacts in the spool, for completion."""
    config = read_config(context)
    try:
        return [] if config is None else [entry.id for entry in anyio.run(list_spool_entries, config)]
    except SpindleError:
        return []


ArtifactId = Annotated[str, Parameter(help="An id from `spool list`, or its last part.", completer=artifact_ids)]
Lines = Annotated[int, Parameter(name=("--lines", "-n"), help="Number of lines, 10 by default.")]
ArtifactAction = Callable[[Artifact, SpoolEntry, Output, IndexedReader], Awaitable[int]]

spool = App(name="spool", help="Read and remove large results stored in full.")


@spool.command(name="list")
def list_artifacts(*, json: Json = False, where: ConfigOptions = DEFAULT_CONFIG_OPTIONS) -> int:
    """List the stored results, newest first."""
    config = where.load()
    entries, out = anyio.run(list_spool_entries, config), Output()
    if json:
        total = sum(entry.byte_length for entry in entries)
        out.json({"artifacts": [_facts(entry) for entry in entries], "total_bytes": total})
    elif entries:
        rows = [
            [format_age(entry.created_at, time.time()), format_bytes(entry.byte_length), entry.id] for entry in entries
        ]
        out.table(["age", "size", "artifact"], rows, ["dim", "green", "cyan"])
    else:
        print_message("the spool is empty", _explain_empty(config))
    return OK


@spool.command
def show(id: ArtifactId, /, *, json: Json = False, where: ConfigOptions = DEFAULT_CONFIG_OPTIONS) -> int:
    """Show the size, age and first lines of an artifact."""

    async def act(artifact: Artifact, entry: SpoolEntry, out: Output, _: IndexedReader) -> int:
        lines, tokens = await artifact.line_count(), await artifact.estimate_tokens()
        if json:
            out.json(_facts(entry) | {"lines": lines, "tokens_estimate": tokens})
            return OK
        size = f"{lines} lines, {format_bytes(entry.byte_length)}, about {tokens} tokens"
        out.tree(entry.id, [(size, ()), (f"stored {format_age(entry.created_at, time.time())} ago", ())])
        for line in await artifact.head(10):
            out.contents(line)
        return OK

    return _run_on_artifact(where, id, act)


@spool.command
def head(
    id: ArtifactId, /, *, lines: Lines = 10, json: Json = False, where: ConfigOptions = DEFAULT_CONFIG_OPTIONS
) -> int:
    """Print the first lines."""
    return _run_on_artifact(
        where, id, lambda artifact, entry, out, _: _print(artifact.head(max(lines, 1)), entry, out, json=json)
    )


@spool.command
def tail(
    id: ArtifactId, /, *, lines: Lines = 10, json: Json = False, where: ConfigOptions = DEFAULT_CONFIG_OPTIONS
) -> int:
    """Print the last lines."""
    return _run_on_artifact(
        where, id, lambda artifact, entry, out, _: _print(artifact.tail(max(lines, 1)), entry, out, json=json)
    )


@spool.command
def cat(
    id: ArtifactId,
    /,
    *,
    start: Annotated[int | None, Parameter(help="The first line to print, counted from 0.")] = None,
    end: Annotated[int | None, Parameter(help="The line to stop before.")] = None,
    json: Json = False,
    where: ConfigOptions = DEFAULT_CONFIG_OPTIONS,
) -> int:
    """Print the full artifact, byte for byte, or a range of lines."""

    async def act(artifact: Artifact, entry: SpoolEntry, out: Output, reader: IndexedReader) -> int:
        if start is None and end is None and not json:
            async for block in reader.chunks():
                out.bytes(block)
            return OK
        return await _print(artifact.cat(start, end), entry, out, json=json)

    return _run_on_artifact(where, id, act)


@spool.command
def grep(
    id: ArtifactId,
    pattern: Annotated[str, Parameter(help="A regular expression (RE2: no look-around).")],
    /,
    *,
    ignore_case: Annotated[bool, Parameter(name=("--ignore-case", "-i"), negative="", help="Ignore case.")] = False,
    before: Annotated[int, Parameter(name=("--before", "-B"), help="Number of lines to print before each match.")] = 0,
    after: Annotated[int, Parameter(name=("--after", "-A"), help="Number of lines to print after each match.")] = 0,
    limit: Annotated[int | None, Parameter(help="Maximum number of matches.")] = None,
    json: Json = False,
    where: ConfigOptions = DEFAULT_CONFIG_OPTIONS,
) -> int:
    """Print matching lines with their numbers; exit code 3 if no line matches."""

    async def act(artifact: Artifact, entry: SpoolEntry, out: Output, _: IndexedReader) -> int:
        flags = "i" if ignore_case else ""
        try:
            found = await artifact.grep(pattern, flags, before=before, after=after, limit=limit)
        except ArtifactQueryError as error:
            raise UsageError(str(error), field="pattern") from error
        if json:
            out.json({"id": entry.id, "matches": [{"line": match.line, "text": match.text} for match in found]})
        for match in () if json else found:
            out.contents(f"{match.line}: {match.text}")
        return OK if found else NOT_FOUND

    return _run_on_artifact(where, id, act)


@spool.command
def rm(*ids: ArtifactId, json: Json = False, where: ConfigOptions = DEFAULT_CONFIG_OPTIONS) -> int:
    """Remove artifacts."""
    if not ids:
        hint = "`spindle spool list` shows the ids; `spindle spool gc` removes old artifacts"
        raise CommandError("spool rm requires at least one artifact id", exit_code=USAGE, hint=hint)

    async def remove(config: Config) -> int:
        removed: list[str] = []
        for given in ids:
            spool, entry, known = await resolve_entry(config, given)
            if entry is None:
                raise build_unknown_error("artifact", given, known, "`spindle spool list` shows all ids")
            if await spool.delete(entry.id):
                removed.append(entry.id)
        out = Output()
        out.json({"removed": removed}) if json else out.line(f"removed {len(removed)}")
        return OK

    return anyio.run(remove, where.load())


@spool.command
def gc(
    *,
    max_bytes: Annotated[int | None, Parameter(help="Total bytes to keep; the configured limit by default.")] = None,
    max_age_days: Annotated[float | None, Parameter(help="Maximum age in days; the configured age by default.")] = None,
    json: Json = False,
    where: ConfigOptions = DEFAULT_CONFIG_OPTIONS,
) -> int:
    """Remove artifacts that are too old, then the oldest ones until the rest fits the size limit.

    The stories of turns in the journal, which refer to artifacts, are removed at the same age.
    """
    config = where.load()
    most = config.retention.max_bytes if max_bytes is None else max_bytes
    days = config.retention.max_age_days if max_age_days is None else max_age_days

    async def prune() -> tuple[int, int]:
        seconds = None if days is None else days * 86_400
        removed = await build_spool(config).prune(max_bytes=most, max_age_seconds=seconds)
        has_stories = seconds is not None and config.journal is not None
        if not has_stories or (isinstance(config.journal, Path) and not config.journal.exists()):
            return removed, 0
        async with build_journal(config) as journal:
            return removed, await turns.prune_turns(journal, max_age_seconds=seconds)

    (removed, stories), out = anyio.run(prune), Output()
    if json:
        out.json({"removed": removed, "stories": stories})
    else:
        out.line(f"removed {removed}" + (f", and the stories of {stories} turns" if stories else ""))
    return OK


def _run_on_artifact(where: ConfigOptions, id: str, act: ArtifactAction) -> int:
    async def find(config: Config) -> int:
        spool, entry, known = await resolve_entry(config, id)
        reader = None if entry is None else await spool.read(entry.id)
        if entry is None or reader is None:
            raise build_unknown_error(
                "artifact", id, known, _explain_empty(config) if not known else "`spindle spool list` shows all ids"
            )
        return await act(Artifact(reader), entry, Output(), reader)

    return anyio.run(find, where.load())


async def _print(reading: Awaitable[list[str]], entry: SpoolEntry, out: Output, *, json: bool) -> int:
    lines = await reading
    if json:
        out.json({"id": entry.id, "lines": lines})
    for line in () if json else lines:
        out.contents(line)
    return OK


def _facts(entry: SpoolEntry) -> JsonObject:
    return {
        "id": entry.id,
        "bytes": entry.byte_length,
        "created_at": datetime.fromtimestamp(entry.created_at, UTC),
        "turn_id": entry.turn_id,
    }


def _explain_empty(config: Config) -> str:
    if config.spool is None:
        return "this configuration stores results in memory, so they are lost when the process exits"
    return f"results over the budget are stored in {config.spool}"
