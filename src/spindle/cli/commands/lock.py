"""`spindle lock`: write what the servers offer now into the lock file, after showing what changed."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypeAlias

from cyclopts import Parameter

from spindle.cli.completers import server_names
from spindle.cli.lock_review import (
    LockPath,
    LockReview,
    LoginUser,
    Once,
    ServerReview,
    describe_status,
    find_lock_path,
    print_review,
    review_servers,
    review_to_json,
)
from spindle.cli.main import FAILED, OK, REFUSED
from spindle.cli.options import DEFAULT_CONFIG_OPTIONS, ConfigOptions, Json, build_unknown_error
from spindle.cli.output import Output, print_message, stderr
from spindle.cli.prompts import can_ask
from spindle.json_types import JsonObject
from spindle.mcp.lock import KINDS, DefinitionChange, LockedServer, LockFile, accept_changes

LockState: TypeAlias = Literal["locked", "unchanged", "accepted", "refused", "unreachable", "removed", "kept"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LockResult:
    """What became of one server."""

    review: ServerReview
    state: LockState
    server: LockedServer | None
    """Its new entry; `None` if it has none."""
    accepted: tuple[DefinitionChange, ...] = ()


def lock(
    servers: Annotated[
        tuple[str, ...], Parameter(help="Only these servers.", completer=server_names, negative="")
    ] = (),
    /,
    *,
    accept: Annotated[
        tuple[str, ...],
        Parameter(name="--accept", negative="", help="Accept the change of this definition only; repeatable."),
    ] = (),
    yes: Annotated[bool, Parameter(name="--yes", negative="", help="Accept every change without asking.")] = False,
    prune: Annotated[
        bool, Parameter(name="--prune", negative="", help="Remove servers that are not configured.")
    ] = False,
    lock: LockPath = None,
    once: Once = False,
    user: LoginUser = None,
    json: Json = False,
    where: ConfigOptions = DEFAULT_CONFIG_OPTIONS,
) -> int:
    """Write what the servers offer now into spindle.lock.

    A server that is not locked yet is locked as it is. Changes of a locked server are shown, and accepted after a
    question. What a server offers to one client only is never locked.
    """
    config = where.load_for_tools()
    review = review_servers(config, servers, find_lock_path(config, lock), once=once, user=user)
    _check_accepted(review, accept)
    out = Output()
    results = [_decide(each, accept=accept, yes=yes, prune=prune, out=None if json else out) for each in review.servers]
    entries = dict(review.lock.servers)
    for result in results:
        entries.pop(result.review.name, None)
        if result.server is not None:
            entries[result.review.name] = result.server
    new = LockFile(servers=entries)
    is_written = new != review.lock or not review.path.exists()
    if is_written:
        new.write(review.path)
    if json:
        out.json(
            {"path": str(review.path), "written": is_written, "servers": [_result_to_json(each) for each in results]}
        )
    else:
        _print_summary(out, review, results, is_written=is_written)
    return _to_exit_code(results)


def _decide(review: ServerReview, *, accept: Sequence[str], yes: bool, prune: bool, out: Output | None) -> LockResult:
    survey, locked = review.survey, review.locked
    if survey is None:
        return LockResult(review=review, state="removed" if prune else "kept", server=None if prune else locked)
    lockable = survey.get_lockable()
    if lockable is None:
        return LockResult(review=review, state="unreachable", server=locked)
    if locked is None:
        if out is not None and (survey.unreadable or survey.per_client):
            print_review(out, review)
        return LockResult(review=review, state="locked", server=lockable)
    if review.status == "same":
        return LockResult(review=review, state="unchanged", server=locked)
    if out is not None:
        print_review(out, review)
    changes = [each for each in review.changes.definitions if _can_accept(each, review)]
    if accept:
        changes = [each for each in changes if _is_named(each, review.name, accept)]
        entry = accept_changes(locked, lockable, changes)
        return LockResult(review=review, state="accepted" if changes else "kept", server=entry, accepted=tuple(changes))
    if not changes and not review.changes.facts:
        return LockResult(review=review, state="kept", server=locked)
    if not yes and not _confirm(review.name):
        return LockResult(review=review, state="refused", server=locked)
    entry = accept_changes(locked, lockable, changes)
    facts = {"origin": lockable.origin, "program": lockable.program, "protocol": lockable.protocol}
    entry = replace(entry, **facts, capabilities=lockable.capabilities)
    return LockResult(review=review, state="accepted", server=entry, accepted=tuple(changes))


def _can_accept(change: DefinitionChange, review: ServerReview) -> bool:
    """Return whether a change can be locked: it is readable, and the same for every client."""
    unstable = () if review.survey is None else review.survey.per_client.definitions
    return change.type != "unreadable" and not any(
        (change.kind, change.name) == (each.kind, each.name) for each in unstable
    )


def _is_named(change: DefinitionChange, server: str, names: Sequence[str]) -> bool:
    return change.name in names or f"mcp__{server}__{change.name}" in names


def _check_accepted(review: LockReview, accept: Sequence[str]) -> None:
    """Refuse names that no change has, before anything is written."""
    changes = [(each.name, change) for each in review.servers for change in each.changes.definitions]
    for name in accept:
        if not any(_is_named(change, server, [name]) for server, change in changes):
            known = [change.name for _, change in changes]
            raise build_unknown_error("change", name, known, f"changed: {', '.join(known) or 'nothing'}")


def _confirm(server: str) -> bool:
    if not can_ask():
        return False
    stderr().line(f"Accept these changes of {server}? [y/N]")
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _print_summary(out: Output, review: LockReview, results: Sequence[LockResult], *, is_written: bool) -> None:
    if not results:
        print_message("no MCP servers are configured", "add one with `spindle add`")
        return
    rows = [[each.review.name, *_count(each.server), _describe_result(each)] for each in results]
    heads = [f"{kind.replace('resource_', '')}s" for kind in KINDS]
    out.table(["server", *heads, "tokens", ""], rows, ["cyan"])
    out.line(f"{review.path} {'was written' if is_written else 'is up to date'}")


def _count(server: LockedServer | None) -> list[str]:
    if server is None:
        return [""] * (len(KINDS) + 1)
    return [*(str(len(server.of_kind(kind))) for kind in KINDS), str(_price(server))]


def _price(server: LockedServer) -> int:
    return sum(each.estimate_tokens() for kind in KINDS for each in server.of_kind(kind).values())


def _describe_result(result: LockResult) -> str:
    return "; ".join(_describe_parts(result))


def _describe_parts(result: LockResult) -> Iterator[str]:
    match result.state:
        case "accepted":
            yield f"{len(result.accepted)} changes accepted"
        case "refused":
            yield "changes not accepted; they stay in quarantine"
        case "unreachable" | "kept":
            yield describe_status(result.review) if not result.review.changes else "kept as it was"
        case state:
            yield state
    survey = result.review.survey
    if survey is not None and survey.per_client:
        yield f"{len(survey.per_client.definitions)} definitions not locked: they differ between clients"
    if survey is not None and survey.unreadable:
        yield f"{len(survey.unreadable)} definitions not locked: they are unreadable"


def _result_to_json(result: LockResult) -> JsonObject:
    server = result.server
    return review_to_json(result.review) | {
        "state": result.state,
        "definitions": None if server is None else server.count(),
        "tokens": None if server is None else _price(server),
        "accepted": [change.name for change in result.accepted],
    }


def _to_exit_code(results: Sequence[LockResult]) -> int:
    if any(each.state == "refused" for each in results):
        return REFUSED
    surveys = [each.review.survey for each in results if each.review.survey is not None]
    is_incomplete = any(each.error is not None or each.unreadable or each.per_client for each in surveys)
    return FAILED if is_incomplete else OK
