"""Roles for the arguments of upstream tools without a declaration, by the names of tools and arguments.

A server chooses the names of its tools and arguments, so a name must never let out what an undeclared value would not.
A text without a role is a target: the user, the operator or a trusted result must have it. Therefore:

- `Content` is given only beside a target that each call must have. What is sent then goes where the user said, is
  searched for foreign addresses, and carries nothing of a private source to others than its readers.
- `Setting` and `Ref` are accepted only if the user said them, in one form or another.
- `Free` is given to whole numbers of paging alone, and only within bounds that the schema enforces: a page number of
  any length could carry a text out.
- A tool whose name says that it deletes is destructive; nothing here makes one harmless.
"""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeGuard

from spindle.json_types import JsonObject, JsonValue, is_array, is_object
from spindle.trust.flow.roles import Content, Free, Ref, Role, Setting, Target

_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_BREAK: Final = re.compile(r"[\s.-]+")
_MAX_PATHS: Final = 500
_MAX_DEPTH: Final = 4
_MAX_PAGING: Final = 1_000_000


def read_words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


_TARGETS: Final = read_words(
    """
    url urls uri uris link links href endpoint host hostname domain domains ip ip_address webhook webhook_url
    callback_url to cc bcc recipient recipients receiver receivers email emails email_address mail attendee attendees
    invitee invitees participant participants assignee assignees reviewer reviewers phone phone_number mobile
    channel channels channel_id channel_name chat chat_id room room_id conversation conversation_id
    user users user_id username login account account_id account_number iban wallet payee
    owner org organization organisation repo repository project project_id workspace workspace_id team team_id
    branch base head ref from_branch branch_name path paths file_path filepath filename file_name file files directory
    dir folder folder_id repo_path source destination source_path destination_path output_path output_dir input_path
    target bucket database db table collection host_name server address share_with
    """
)
_CONTENTS: Final = read_words(
    """
    body content contents text message messages title description subject comment summary note notes caption html
    markdown query q question prompt commit_message old_text new_text old_string new_string old_str new_str
    observations snippet topic data
    """
)
_SETTINGS: Final = read_words(
    """
    amount price cost total quantity qty currency date time datetime day month year start end start_date end_date
    start_time end_time from_date to_date since until due due_date deadline duration days hours minutes interval period
    timezone time_zone source_timezone target_timezone priority status state event mode format language lang unit units
    visibility permission permissions labels sort order direction encoding recurrence width height
    """
)
_PAGING: Final = read_words(
    """
    limit page page_number page_no page_size per_page offset skip max_results num_results max_items start_index top_k
    """
)
_KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        f"{kind}_id": kind
        for kind in read_words(
            """
            issue pull comment message thread event calendar file document page task ticket card list board order
            invoice customer contact record row note post label release run job gist commit draft
            attachment presentation
            """
        )
    }
    | {"issue_number": "issue", "pull_number": "pull", "pr_number": "pull", "discussion_number": "discussion"}
    | {"comment_number": "comment", "alert_number": "alert", "run_number": "run", "sha": "commit"}
    | {"thread_ts": "thread", "event_ids": "event", "message_ids": "message", "file_ids": "file"}
)
KINDS: Final = frozenset(_KINDS.values())
"""The kinds of reference that these rules give."""
_DESTRUCTIVE: Final = read_words("delete drop purge destroy erase wipe truncate revoke terminate reset")
_WELL_KNOWN: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        # Of the reference servers: what the names of their arguments do not say.
        "edit_file": {"edits": "content"},
        "search_files": {"pattern": "content"},
        "convert_time": {"time": "setting"},
        "git_diff": {"target": "target"},
        "git_add": {"files": "target"},
        "git_checkout": {"branch_name": "target"},
        "create_entities": {"entities": "target"},
        "create_relations": {"relations": "target"},
        "add_observations": {"observations": "target"},
        "slack_add_reaction": {"reaction": "setting", "timestamp": "ref:message"},
        "slack_reply_to_thread": {"thread_ts": "ref:thread"},
        "push_files": {"files.*.path": "target", "files.*.content": "content"},
    }
)
"""Roles of arguments by the bare name of a tool; the same limits hold for them."""
_TEXTS: Final = {"target": Target(), "content": Content(), "setting": Setting()}


def find_default_roles(tool: str, schema: Mapping[str, JsonValue]) -> dict[str, Role]:
    """Return the roles of the arguments of an upstream tool by dotted path; those that are missing stay the strictest.

    `tool` is the server's own name of the tool.
    """
    known = _WELL_KNOWN.get(_normalize(tool), {})
    found: dict[str, Role] = {}
    for path, node in _iter_properties(schema):
        given = known.get(path)
        role = _choose_role(path, node) if given is None else _read_known(given)
        if role is not None:
            found[path] = role
    if not _has_fixed_target(found, schema):
        found = {path: role for path, role in found.items() if not isinstance(role, Content)}
    return found


def is_destructive_name(tool: str) -> bool:
    """Return whether the name of an upstream tool says that it destroys something, such as `delete_file`."""
    return not _DESTRUCTIVE.isdisjoint(_normalize(tool).split("_")[:2])


def _normalize(name: str) -> str:
    return _BREAK.sub("_", _CAMEL.sub("_", name)).lower()


def _read_known(given: str) -> Role:
    name, _, kind = given.partition(":")
    return Ref(kind) if name == "ref" else _TEXTS[name]


def _choose_role(path: str, node: JsonObject) -> Role | None:
    name = _normalize(path.removesuffix(".*").rpartition(".")[2])
    types = _get_types(node)
    if name in _PAGING:
        return Free() if types == {"integer"} and _is_bounded(node) else Setting()
    if name in _KINDS:
        return Ref(_KINDS[name])
    if types == {"boolean"} or _has_choices(node):
        return Setting()
    if name in _TARGETS:
        return Target()
    if name in _CONTENTS:
        return Content()
    return Setting() if name in _SETTINGS or types in ({"number"}, {"integer"}) else None


def _is_bounded(node: JsonObject) -> bool:
    low, high = node.get("minimum", node.get("exclusiveMinimum")), node.get("maximum", node.get("exclusiveMaximum"))
    return _is_number(low) and _is_number(high) and low >= -1 and high <= _MAX_PAGING


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _has_choices(node: JsonObject) -> bool:
    return is_array(node.get("enum")) or "const" in node


def _has_fixed_target(roles: Mapping[str, Role], schema: Mapping[str, JsonValue]) -> bool:
    """Return whether each call has a target: an argument of the tool itself that is required and cannot be null."""
    required = schema.get("required")
    properties = schema.get("properties")
    if not is_array(required) or not is_object(properties):
        return False
    return any(
        isinstance(roles.get(name), Target) and _get_types(properties.get(name)) == {"string"}
        for name in required
        if isinstance(name, str)
    )


def _get_types(node: JsonValue) -> set[str]:
    """Return the JSON types that a property may have; nothing if the schema does not say."""
    if not is_object(node):
        return set()
    for word in ("anyOf", "oneOf"):
        members = node.get(word)
        if is_array(members):
            return set[str]().union(*(_get_types(each) or {"?"} for each in members))
    kinds = node.get("type")
    return {str(kind) for kind in kinds} if is_array(kinds) else {kinds} if isinstance(kinds, str) else set()


def _iter_properties(schema: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonObject]]:
    """Yield each property with its dotted path, also those in lists and objects, up to a bound."""
    waiting: list[tuple[str, JsonValue]] = [("", dict(schema))]
    count = 0
    while waiting and count < _MAX_PATHS:
        path, node = waiting.pop()
        if not is_object(node) or path.count(".") > 2 * _MAX_DEPTH:
            continue
        properties, items = node.get("properties"), node.get("items")
        if path:
            count += 1
            yield path, node
        if is_object(properties):
            inner = {name: each for name, each in properties.items() if name and "." not in name and "*" not in name}
            waiting += [(f"{path}.{name}" if path else name, each) for name, each in inner.items()]
        if path and is_object(items) and is_object(items.get("properties")):
            waiting.append((f"{path}.*", items))
