"""A review of the servers against the lock, shared by `lock`, `diff` and `verify`: what changed, and how to show it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import anyio
from cyclopts import Parameter

from spindle.cli.config.loader import Config
from spindle.cli.main import USAGE
from spindle.cli.options import build_unknown_error
from spindle.cli.output import Output, Part, build_warning_events, show_progress
from spindle.cli.runtime_logins import build_logins
from spindle.cli.runtime_servers import build_server_secret_lookup, build_specs
from spindle.errors import CommandError
from spindle.json_types import JsonObject, JsonValue, is_list_or_tuple
from spindle.mcp.client.survey import ServerSurvey, SurveyUser, survey_servers
from spindle.mcp.lock import (
    DefinitionChange,
    FactChange,
    LockedServer,
    LockFile,
    ServerChanges,
    TextChange,
    change_to_json,
    compare_servers,
    describe_origin,
    diff_definitions,
    reveal_hidden,
)
from spindle.text import did_you_mean, shorten_middle
from spindle.tools.identity import canonical_json

LockPath = Annotated[
    Path | None, Parameter(name="--lock", help="Use this lock file instead of the one beside spindle.toml.")
]
Once = Annotated[
    bool,
    Parameter(
        name="--once",
        negative="",
        help="Connect once, and do not compare what another client is offered.",
    ),
]

LoginUser = Annotated[
    str | None,
    Parameter(name="--user", help="Whose login to use at servers with OAuth; that of `spindle login` by default."),
]

ReviewStatus: TypeAlias = Literal["same", "changed", "unlocked", "unreachable", "not_configured"]

_MAX_SAME_CHARS = 160
_SYMBOLS = {"changed": "~", "added": "+", "removed": "-", "renamed": ">", "unreadable": "!"}
_STYLES = {"changed": "yellow", "added": "green", "removed": "red", "renamed": "magenta", "unreadable": "red"}
_PIECE_STYLES = {"same": "", "removed": "red", "added": "green"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerReview:
    """One server, as it is locked and as it was found."""

    name: str
    locked: LockedServer | None
    survey: ServerSurvey | None
    """`None` for a locked server that is not configured."""
    changes: ServerChanges = field(default_factory=ServerChanges)

    @property
    def status(self) -> ReviewStatus:
        """Whether the server is as it was locked; otherwise why not."""
        if self.survey is None:
            return "not_configured"
        if self.survey.error is not None:
            return "unreachable"
        if self.locked is None:
            return "unlocked"
        return "changed" if self.changes or self.survey.per_client else "same"


@dataclass(frozen=True, kw_only=True, slots=True)
class LockReview:
    """All servers that were reviewed, and the lock file."""

    path: Path
    lock: LockFile
    servers: tuple[ServerReview, ...]


def find_lock_path(config: Config, given: Path | None) -> Path:
    """Return the lock file to use."""
    path = given.expanduser().absolute() if given is not None else config.lock
    if path is None:
        raise CommandError("no lock file is known here", exit_code=USAGE, hint="name one with --lock FILE")
    return path


def review_servers(
    config: Config, names: Sequence[str], path: Path, *, once: bool, user: str | None = None
) -> LockReview:
    """Start the enabled servers, or those with the given names, and compare them with the lock.

    Raises:
        CommandError: A name is unknown.
        InvalidLockError: The lock file is not valid.
    """
    lock = LockFile.read(path) or LockFile()
    specs = {spec.name: spec for spec in build_specs(config)}
    for name in names:
        if name not in specs and name not in lock.servers:
            known = [*specs, *lock.servers]
            hint = did_you_mean(name, known, f"known: {', '.join(dict.fromkeys(known)) or 'none'}")
            raise build_unknown_error("MCP server", name, known, hint)
    wanted = [spec for name, spec in specs.items() if not names or name in names]
    surveys: list[ServerSurvey] = []
    if wanted:
        with show_progress(f"starting {', '.join(spec.name for spec in wanted)} …") as progress:
            secrets, events = build_server_secret_lookup(config), build_warning_events(progress)
            by_user = SurveyUser(name=user, logins=build_logins(config, wanted))

            async def survey() -> list[ServerSurvey]:
                return await survey_servers(
                    wanted,
                    secrets=secrets,
                    events=events,
                    origins=find_origins(config),
                    twice=not once,
                    user=by_user,
                )

            surveys = anyio.run(survey)
    reviews = [_review(each, lock.servers.get(each.name)) for each in surveys]
    disabled = {name for name, entry in config.servers.items() if not entry.enabled}
    reviews += [
        ServerReview(name=name, locked=locked, survey=None)
        for name, locked in lock.servers.items()
        if name not in specs and name not in disabled and (not names or name in names)
    ]
    return LockReview(path=path, lock=lock, servers=tuple(reviews))


def find_origins(config: Config) -> dict[str, JsonObject]:
    """Return the origin of each server as its file has it, so without the values of variables."""
    return {name: _to_origin(entry) for name, entry in config.given_servers.items()}


def _to_origin(entry: Mapping[str, JsonValue]) -> JsonObject:
    command, args, url = entry.get("command"), entry.get("args"), entry.get("url")
    if isinstance(url, str) and not isinstance(command, str):
        return describe_origin(url=url)
    words = [each for each in args if isinstance(each, str)] if is_list_or_tuple(args) else []
    return describe_origin(command=command if isinstance(command, str) else "", args=words)


def _review(survey: ServerSurvey, locked: LockedServer | None) -> ServerReview:
    if survey.found is None or locked is None:
        return ServerReview(name=survey.name, locked=locked, survey=survey)
    changes = compare_servers(locked, survey.found, survey.unreadable)
    return ServerReview(name=survey.name, locked=locked, survey=survey, changes=changes)


def print_review(out: Output, review: ServerReview) -> None:
    """Print the differences of one server, word by word."""
    survey = review.survey
    out.line((review.name, "bold"), f"  {describe_status(review)}")
    if survey is None or survey.found is None:
        return
    for fact in review.changes.facts:
        _print_fact(out, fact)
    for change in review.changes.definitions:
        print_change(out, change)
    if review.locked is None:
        for change in survey.unreadable:
            print_change(out, change)
    if survey.per_client:
        out.line(("  It answers another client differently:", "red bold"))
        for fact in survey.per_client.facts:
            _print_fact(out, fact)
        for change in survey.per_client.definitions:
            print_change(out, change)


def describe_status(review: ServerReview) -> str:
    """Return the status of a server in words."""
    match review.status:
        case "same":
            count = 0 if review.locked is None else review.locked.count()
            return f"is as it was locked: {count} definitions"
        case "changed":
            count = len(review.changes.definitions) + len(review.changes.facts)
            return (
                f"{count} difference{'' if count == 1 else 's'} from the lock"
                if count
                else "is not the same for every client"
            )
        case "unlocked":
            return "is not in the lock file; `spindle lock` adds it"
        case "unreachable":
            return f"cannot be reached, so it was not compared: {review.survey.error if review.survey else ''}"
        case "not_configured":
            return "is in the lock file, but not configured; `spindle lock --prune` removes it"


def print_change(out: Output, change: DefinitionChange) -> None:
    """Print one change with its texts."""
    name, what = reveal_hidden(change.name), change.kind.replace("_", " ")
    old = "" if change.before is None or change.type != "renamed" else f" (was {reveal_hidden(change.before.name)})"
    symbol, style = _SYMBOLS[change.type], _STYLES[change.type]
    out.line((f"  {symbol} {what} {name}", style), f" {change.type}{old}{_describe_price(change)}")
    if change.type == "unreadable":
        out.line(f"      {change.reason}")
        return
    before, after = change.before, change.after
    for text in diff_definitions(None if before is None else before.value, None if after is None else after.value):
        _print_text(out, text)


def _describe_price(change: DefinitionChange) -> str:
    old = None if change.before is None else change.before.estimate_tokens()
    new = None if change.after is None else change.after.estimate_tokens()
    prices = [str(price) for price in (old, new) if price is not None]
    return f", {' → '.join(dict.fromkeys(prices))} tokens" if prices else ""


def _print_text(out: Output, change: TextChange) -> None:
    parts: list[Part] = [(f"      {change.path}: ", "dim")]
    for piece, text in zip(change.pieces, change.get_marked(), strict=True):
        shown = shorten_middle(text, _MAX_SAME_CHARS) if piece.type == "same" else text
        parts.append((shown.replace("\n", "\n        "), _PIECE_STYLES[piece.type]))
    out.line(*parts)


def _print_fact(out: Output, fact: FactChange) -> None:
    for text in diff_definitions(_wrap(fact.fact, fact.before), _wrap(fact.fact, fact.after)):
        _print_text(out, text)


def _wrap(fact: str, value: JsonValue) -> JsonObject:
    return {fact: value}


def review_to_json(review: ServerReview) -> JsonObject:
    """Return the review of a server as JSON data; the keys are stable."""
    survey = review.survey
    return {
        "name": review.name,
        "status": review.status,
        "error": None if survey is None else survey.error,
        "changes": [_change_with_texts(change) for change in review.changes.definitions],
        "facts": _facts_to_json(review.changes.facts),
        "per_client": None
        if survey is None
        else {
            "changes": [_change_with_texts(change) for change in survey.per_client.definitions],
            "facts": _facts_to_json(survey.per_client.facts),
        },
        "unreadable": [] if survey is None else [change_to_json(change) for change in survey.unreadable],
    }


def _change_with_texts(change: DefinitionChange) -> JsonObject:
    before, after = change.before, change.after
    texts = diff_definitions(None if before is None else before.value, None if after is None else after.value)
    return change_to_json(change) | {"diff": [{"path": each.path, "text": each.to_text()} for each in texts]}


def _facts_to_json(facts: Iterable[FactChange]) -> list[JsonObject]:
    return [{"fact": fact.fact, "before": to_plain(fact.before), "after": to_plain(fact.after)} for fact in facts]


def to_plain(value: JsonValue) -> str:
    """Return a fact as one text, with hidden characters revealed."""
    return reveal_hidden(value if isinstance(value, str) else canonical_json(value).decode())
