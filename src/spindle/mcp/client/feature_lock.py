"""`FeatureLock`: checks the prompts, resource templates and apps of a server against the lock.

An app is a `ui://` resource. Its definition is checked when it is listed, and its content each time it is read, so
that a server cannot show another page to some of its readers.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final, Literal

import anyio
import anyio.to_thread

from spindle.errors import NotCanonicalError, SpindleError, UpstreamRefusedError
from spindle.json_types import JsonObject, JsonValue, is_object
from spindle.mcp.client.feature_definitions import Kind
from spindle.mcp.lock.definitions import DefinitionKind, LockedDefinition, is_bounded
from spindle.mcp.lock.quarantine import CheckedListing, DefinitionGuard
from spindle.text import PayloadRedactor
from spindle.tools.identity import canonical_json

_UI: Final = "ui:"
_MAX_APPS: Final = 200
_INVALID_PARAMS: Final = -32602
_CONTENT: Final = "content"


class FeatureLock:
    """The guard of one server's prompts, resource templates and apps."""

    def __init__(self, guard: DefinitionGuard, redactor: PayloadRedactor) -> None:
        self._guard = guard
        self._redactor = redactor
        self._values: dict[DefinitionKind, list[JsonObject]] = {}
        """The latest listings, to check them again against another lock."""
        self._digests: dict[str, JsonObject | None] | None = None
        """The contents of apps that were read during a survey."""

    def check(self, kind: Literal["prompts", "resources", "templates"], entries: Iterable[Any]) -> CheckedListing:
        """Compare a listing with the lock; changes nothing that is offered, so it may run in a thread."""
        values: list[JsonObject] = [each.model_dump(mode="json", by_alias=True, exclude_unset=True) for each in entries]
        match kind:
            case "prompts":
                return self._check("prompt", values)
            case "templates":
                return self._check("resource_template", values)
            case "resources":
                return self._check("app", [value for value in values if is_app(str(value.get("uri")))])

    def _check(self, kind: DefinitionKind, values: list[JsonObject]) -> CheckedListing:
        self._values[kind] = values
        return self._guard.check(kind, self._assume_contents(values) if kind == "app" else values)

    def _assume_contents(self, values: Sequence[JsonObject]) -> list[JsonObject]:
        """Return the listed apps with their locked contents, which are checked when they are read.

        An app that only a tool names is not listed, so it is taken as it is locked.
        """
        locked = self._guard.policy.find(self._guard.server)
        apps: Mapping[str, LockedDefinition] = locked.of_kind("app") if locked is not None else {}
        listed = {str(value["uri"]) for value in values}
        assumed = [
            {**value, _CONTENT: apps[uri].value.get(_CONTENT)} if (uri := str(value["uri"])) in apps else value
            for value in values
        ]
        unlisted = [each.value for uri, each in apps.items() if uri not in listed and not _is_listed(each.value)]
        return assumed + unlisted

    def apply(self, checked: CheckedListing) -> None:
        """Make a checked listing the current one."""
        self._guard.apply(checked)

    async def recheck(self) -> None:
        """Check the latest listings again, since the lock was replaced; thousands of definitions take long."""
        for kind, values in list(self._values.items()):
            checked = await anyio.to_thread.run_sync(self._check, kind, values)
            if self._values.get(kind) is values:  # otherwise a newer listing was checked meanwhile
                self._guard.apply(checked)

    def is_withheld(self, kind: Kind, name: str) -> bool:
        """Return whether a prompt, resource, template or app must be neither shown nor read; plain resources may."""
        match kind:
            case "prompt":
                return self._guard.is_withheld("prompt", name)
            case "template":
                return self._guard.is_withheld("resource_template", name)
            case _ if is_app(name):
                return self._guard.is_withheld("app", name)
            case _:
                return self._guard.policy.unlocked == "quarantine" and not self._guard.is_locked

    def check_content(self, uri: str, contents: Iterable[Any]) -> None:
        """Check the content of an app that was read.

        Raises:
            UpstreamRefusedError: The server is locked, and the content is not what was locked.
        """
        if not is_app(uri):
            return
        digest, locked = self.digest(contents), self._guard.policy.find(self._guard.server)
        if self._digests is not None:
            self._digests[uri] = digest
        if locked is None:
            return
        app = locked.of_kind("app").get(uri)
        if app is not None and digest is not None and app.value.get(_CONTENT) == digest:
            return
        self._guard.withhold("app", uri, "its content changed since it was locked")
        raise UpstreamRefusedError(
            f"MCP server {self._guard.server!r}: the resource is in quarantine, since it is not what was locked",
            server=self._guard.server,
            rpc_code=_INVALID_PARAMS,
        )

    def digest(self, contents: Iterable[Any]) -> JsonObject | None:
        """Return the hash and the size of an app's content; `None` if it has no canonical form."""
        values: list[JsonValue] = [
            self._redactor.redact_value(each.model_dump(mode="json", by_alias=True, exclude_unset=True))
            for each in contents
        ]
        try:
            data = canonical_json(values) if is_bounded(values) else None
        except NotCanonicalError:
            data = None
        return None if data is None else {"sha256": sha256(data).hexdigest(), "bytes": len(data)}

    async def survey_apps(self, read: Callable[[str], Awaitable[object]]) -> None:
        """Read every app that is listed or that a tool names, so that its content can be locked.

        `read` must call `check_content`. An app that cannot be read is locked without content, so that whatever its
        server returns later is withheld.
        """
        listed = {str(value["uri"]): value for value in self._values.get("app", [])}
        for uri in find_app_uris(each.value for each in self._guard.get_listing("tool").definitions.values()):
            listed.setdefault(uri, {"uri": uri})
        found = list(listed)[:_MAX_APPS]
        digests: dict[str, JsonObject | None] = {}
        self._digests = digests
        for uri in found:
            with suppress(SpindleError):
                await read(uri)
        self._digests = None
        values = [{**listed[uri], _CONTENT: digests.get(uri)} for uri in found]
        self._guard.record(self._guard.check("app", values))


def is_app(uri: str) -> bool:
    """Return whether a URI has the scheme of apps, in any case."""
    return uri[: len(_UI)].lower() == _UI


def find_app_uris(tools: Iterable[JsonObject]) -> list[str]:
    """Return the URIs of the apps that tools name in their metadata."""
    found: dict[str, None] = {}
    for tool in tools:
        meta = tool.get("_meta")
        if not is_object(meta):
            continue
        ui = meta.get("ui")
        for uri in (ui.get("resourceUri") if is_object(ui) else None, meta.get("ui/resourceUri")):
            if isinstance(uri, str) and is_app(uri):
                found[uri] = None
    return list(found)


def _is_listed(value: JsonObject) -> bool:
    """Return whether a locked app was listed by its server: then it has a name."""
    return "name" in value
