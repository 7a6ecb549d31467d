"""Entries of servers in a client's configuration: build Spindle's own, describe others, mask secrets."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import parse_qsl, quote, urlsplit

from spindle.addresses import has_password, mask_password
from spindle.cli.clients.catalogue import KnownClient
from spindle.cli.config.schema import looks_like_secret
from spindle.cli.config.sources import starts_spindle
from spindle.json_types import JsonObject, JsonValue, is_array, is_object

MASK: Final = "***"
_MAX_WORDS: Final = 200
_MAX_CHARS: Final = 2_000
_MAX_INTEGER: Final = 1 << 64
_URL_KEYS: Final = ("url", "serverUrl", "httpUrl", "uri")
_KEY: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[A-Za-z0-9_+=]{32,}", re.IGNORECASE)
"""What may be a key of a kind that has no prefix of its own, if it has letters and digits."""
_ASSIGNED: Final = re.compile(r"(-{0,2}[A-Za-z_][\w.-]*)=(.+)", re.DOTALL)


def build_entry(client: KnownClient, command: Sequence[str]) -> JsonObject:
    """Return the entry of a server that the client starts."""
    if client.is_command_list:
        return {**client.command_extra, "command": list(command)}
    return {**client.command_extra, "command": command[0], "args": list(command[1:])}


def build_url_entry(client: KnownClient, url: str, token_variable: str | None) -> JsonObject:
    """Return the entry of a server at a URL; the client reads the bearer token from an environment variable."""
    entry: JsonObject = {**client.url_extra, client.url_key or "url": url}
    if token_variable is None or client.variable is None:
        return entry
    if client.name == "codex":
        return entry | {"bearer_token_env_var": token_variable}
    return entry | {"headers": {"Authorization": f"Bearer {client.variable.replace('NAME', token_variable)}"}}


def normalize_entry(entry: Mapping[str, JsonValue]) -> JsonObject:
    """Return a client's entry with the members of `[mcp.servers.NAME]`, and `type` where it names a transport."""
    found: JsonObject = {}
    command, args = entry.get("command"), entry.get("args")
    if is_object(command):  # an older form of Zed
        entry = {**entry, **command}
        command, args = command.get("path"), command.get("args")
    if is_array(command):
        command, args = (command[0] if command else None), [*command[1:], *(args if is_array(args) else ())]
    if isinstance(command, str) and command:
        found["command"] = command
        found["args"] = [_to_text(each) for each in args] if is_array(args) else []
    elif (url := next((entry[key] for key in _URL_KEYS if isinstance(entry.get(key), str)), None)) is not None:
        found["url"] = url
        if headers := _read_headers(entry):
            found["headers"] = headers
    environment = entry.get("env") or entry.get("environment")
    if is_object(environment) and environment and "command" in found:
        found["env"] = {name: _to_text(value) for name, value in environment.items()}
    if isinstance(entry.get("cwd"), str) and "command" in found:
        found["cwd"] = entry["cwd"]
    if entry.get("disabled") is True or entry.get("enabled") is False:
        found["enabled"] = False
    return found


def _to_text(value: JsonValue) -> str:
    match value:
        case str():
            return value
        case bool() | float():
            return json.dumps(value)
        case int() if abs(value) < _MAX_INTEGER:
            return str(value)
        case _:  # an error of the file, which may be huge when it is printed
            return ""


def _read_headers(entry: Mapping[str, JsonValue]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key in ("headers", "http_headers"):
        given = entry.get(key)
        if is_object(given):
            found |= {name: _to_text(value) for name, value in given.items()}
    variables = entry.get("env_http_headers")
    if is_object(variables):
        found |= {name: f"${{{_to_text(value)}}}" for name, value in variables.items()}
    if isinstance(variable := entry.get("bearer_token_env_var"), str):
        found["Authorization"] = f"Bearer ${{{variable}}}"
    return found


def is_spindle(name: str, entry: Mapping[str, JsonValue]) -> bool:
    """Return whether an entry starts Spindle, or is a URL under its name."""
    plain = normalize_entry(entry)
    return starts_spindle(plain) if "command" in plain else name == "spindle" and "url" in plain


def describe_target(plain: Mapping[str, JsonValue]) -> str:
    """Return the command line or the URL of a normalized entry, with everything that may be a secret masked."""
    if "command" in plain:
        return shlex.join(mask_words([str(plain["command"]), *map(str, plain.get("args", ()))]))
    return mask_url(str(plain.get("url", "")))


def mask_words(words: Sequence[str]) -> list[str]:
    """Return the words of a command line with values that may be secrets masked."""
    shown: list[str] = []
    before = ""
    for word in (each[:_MAX_CHARS] for each in words[:_MAX_WORDS]):
        assigned = _ASSIGNED.fullmatch(word)
        if "://" in word and not word.startswith("-"):
            shown.append(mask_url(word))
        elif assigned is not None:
            shown.append(f"{assigned[1]}={_mask_value(assigned[1], assigned[2])}")
        else:
            shown.append(_mask_value(before if before.startswith("-") else "", word))
        before = word
    return shown


def find_secret_word(words: Sequence[str]) -> str | None:
    """Return a description of the first word that holds a credential, without it; `None` if there is none."""
    for number, (before, word) in enumerate(zip(["", *words], words, strict=False)):
        assigned = _ASSIGNED.fullmatch(word)
        if "://" in word and _find_url_secret(word):
            return "the URL"
        if assigned is not None and looks_like_secret(assigned[1], assigned[2]):
            return f"the value of {assigned[1]}"
        if looks_like_secret(before.lstrip("-") if before.startswith("-") else "", word) and not word.startswith("-"):
            return f"the value of {before}" if before.startswith("-") else f"argument {number}"
    return None


def _find_url_secret(url: str) -> bool:
    try:
        parts = urlsplit(url)
        pairs = parse_qsl(parts.query)
    except ValueError:
        return False
    return has_password(url) or looks_like_secret("", url) or any(looks_like_secret(*pair) for pair in pairs)


def _mask_value(name: str, value: str) -> str:
    if "://" in value:
        return mask_url(value)
    # `-H "Authorization: Bearer …"` names its value inside.
    label, colon, rest = value.partition(":")
    if colon and looks_like_secret(label.strip(), rest.strip()):
        return f"{label}: {MASK}"
    is_path = value.startswith(("/", "./", "../", "~", "@")) or "\\" in value
    if looks_like_secret(name.lstrip("-"), value) or (not is_path and _has_key(value)):
        return MASK
    return value


def _has_key(text: str) -> bool:
    found = (each[0] for each in _KEY.finditer(text))
    return any(re.search("[0-9]", each) and re.search("[A-Za-z]", each) for each in found)


def mask_url(url: str) -> str:
    """Return a URL with its login, the values of its query, its fragment and secrets in its path masked."""
    try:
        parts = urlsplit(mask_password(url[:_MAX_CHARS]))
        query = "&".join(f"{quote(name)}={MASK}" for name, _ in parse_qsl(parts.query, keep_blank_values=True))
    except ValueError:
        return MASK
    steps = [MASK if looks_like_secret("", step) or _has_key(step) else step for step in parts.path.split("/")]
    login, at, host = parts.netloc.rpartition("@")
    netloc = f"{MASK}@{host}" if at and login else parts.netloc
    return parts._replace(
        netloc=netloc, path="/".join(steps), query=query, fragment=MASK if parts.fragment else ""
    ).geturl()
