"""The prompts, resources and resource templates of one upstream server: listed, kept current, read on request."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

import anyio
import anyio.to_thread

from spindle.errors import InvalidGateError, UpstreamError, UpstreamRefusedError
from spindle.events import Logged
from spindle.json_types import JsonObject
from spindle.mcp.client.connection import LISTING_SECONDS, UpstreamConnection
from spindle.mcp.client.contents import ContentRules
from spindle.mcp.client.feature_definitions import Feature, Kind, build_feature
from spindle.mcp.client.feature_lock import FeatureLock
from spindle.mcp.client.lifecycle import ActiveConnection, ClientServices, describe_failure
from spindle.mcp.client.requests import GetHeaders, UpstreamRequests
from spindle.mcp.client.resource_uris import UI, UriMapping
from spindle.mcp.client.resource_watch import ResourceWatch
from spindle.mcp.client.upstream_questions import clean_requests
from spindle.tools.context import ToolContext

if TYPE_CHECKING:
    from mcp.client.subscriptions import ServerEvent
    from mcp.shared.uri_template import UriTemplate
    from mcp_types import CompleteRequestParams, CompleteResult, ServerCapabilities

    from spindle.mcp.client.feature_requests import GetAnswer, InputAnswers, ReadAnswer
    from spindle.mcp.client.session import AnswerQuestions, UpstreamSession

ListKind: TypeAlias = Literal["prompts", "resources", "templates"]
KINDS: Final[tuple[ListKind, ...]] = ("prompts", "resources", "templates")
ChangeKind: TypeAlias = Literal["prompts", "resources"]
FeaturesChanged: TypeAlias = Callable[["UpstreamFeatures", ChangeKind], None]

LIST_WAIT_SECONDS: Final = 10.0
"""How long a client waits for a listing before it gets the entries of the last one."""
RETRY_SECONDS: Final = 30.0
"""After a listing failed, it is not tried again for so long."""
_SPARE_SECONDS: Final = 5.0
_METHOD_NOT_FOUND: Final = -32601
_MAX_COMPLETIONS: Final = 100
_METHODS: Final[Mapping[ListKind, str]] = {
    "prompts": "prompts/list",
    "resources": "resources/list",
    "templates": "resources/templates/list",
}


@dataclass(eq=False)
class _Listing:
    """The last listing of one kind."""

    kind: ListKind
    features: tuple[Feature, ...] = ()
    by_name: dict[str, Feature] = field(default_factory=dict[str, Feature])
    """By the server's own names."""
    templates: "list[tuple[Feature, UriTemplate]]" = field(default_factory=list[Any])
    is_stale: bool = True
    listed_at: float = -math.inf
    retry_at: float = -math.inf
    problems: tuple[str, ...] = ()
    lock: anyio.Lock = field(default_factory=anyio.Lock)


class UpstreamFeatures:
    """The prompts and resources of one server; `on_change` is called when a list of them has changed.

    `is_withheld` decides, by kind and own name, which definitions are neither shown nor usable.
    """

    user: str | None = None
    """Whose they are, for a server with OAuth."""
    problem: UpstreamError | None = None
    """Why there are none for this user; `None` in all but `AbsentFeatures`."""

    def __init__(
        self,
        connection: UpstreamConnection,
        services: ClientServices,
        get_headers: GetHeaders,
        on_change: FeaturesChanged,
        lock: FeatureLock,
    ) -> None:
        self.spec = connection.spec
        self.uris = UriMapping(self.spec.name, self.spec.prefix)
        self.lock = lock
        self.is_withheld: Callable[[Kind, str], bool] = lock.is_withheld
        self.declared: ServerCapabilities | None = None
        """The capabilities of the server when it was last connected; `None` before."""
        self.watch = ResourceWatch(connection)
        """The subscriptions to its resources."""
        self._connection = connection
        self._services = services
        self._requests = UpstreamRequests(connection, services, get_headers)
        self._rules = ContentRules(uris=self.uris, redactor=services.redactor, is_trusted=self.spec.trusted)
        self._on_change = on_change
        self._listings = {kind: _Listing(kind) for kind in KINDS}
        self._changed = anyio.Event()
        self._is_followed = anyio.Event()
        self._live: ActiveConnection | None = None

    def follow(self) -> None:
        """Keep the lists current from now on, and report their changes; before, they are read on request only."""
        self._is_followed.set()

    # --- listing

    def get_definitions(self) -> list[Feature]:
        """Return all current definitions, also those that are withheld."""
        return [feature for listing in self._listings.values() for feature in listing.features]

    def get_shown(self, kind: ListKind) -> list[Feature]:
        """Return the definitions of the last listing that are not withheld."""
        return [each for each in self._listings[kind].features if not self.is_withheld(each.kind, each.own_name)]

    def can_have(self, kind: Literal["prompts", "resources", "completions"]) -> bool:
        """Return whether the server has declared that it has some, or has not been connected yet."""
        if not self.spec.enabled:
            return False
        return self.declared is None or getattr(self.declared, kind) is not None

    @property
    def can_watch(self) -> bool:
        """Whether the server has declared subscriptions to resources, or has not been connected yet."""
        if self.declared is None:
            return self.spec.enabled
        return self.declared.resources is not None and bool(self.declared.resources.subscribe)

    async def refresh(self, kind: ListKind) -> None:
        """Read a listing again unless it is current; a server that is down keeps its last listing."""
        state = self._connection.status(tools=0).state
        # An idle one is started on first use, and the start of a user's connection is not awaited elsewhere.
        if state not in ("idle", "ready") and (state != "starting" or self.spec.oauth is None):
            return
        seconds = LIST_WAIT_SECONDS + (0 if state == "ready" else self.spec.start_timeout_seconds)
        with anyio.move_on_after(seconds):
            live = await self._connection.get_active()
            if live is not None:
                self._adopt(live)
            listing = self._listings[kind]
            if live is not None and (not self._is_current(listing) or listing.lock.locked()):
                await self._read_listing(listing)

    def has_listed(self, kind: ListKind) -> bool:
        """Return whether there is a listing, however old."""
        return self._listings[kind].listed_at > -math.inf

    def _is_current(self, listing: _Listing) -> bool:
        now = self._services.clock.now()
        if not self._has(listing.kind) or now < listing.retry_at:
            return True
        is_reported = self._is_followed.is_set() and self._reports_changes(listing.kind)
        return not listing.is_stale and (is_reported or now - listing.listed_at < LISTING_SECONDS)

    def _has(self, kind: ListKind) -> bool:
        return self.declared is not None and getattr(self.declared, _capability(kind)) is not None

    def _reports_changes(self, kind: ListKind) -> bool:
        declared = None if self.declared is None else getattr(self.declared, _capability(kind))
        return declared is not None and bool(declared.list_changed)

    async def _read_listing(self, listing: _Listing) -> None:
        async with listing.lock:
            if self._is_current(listing):
                return
            listing.is_stale = False  # a change that is reported from now on is not part of this listing
            try:
                entries, problems = await self._requests.send(
                    lambda session, _ask: session.features.read_listing(listing.kind),
                    method=_METHODS[listing.kind],
                    ctx=None,
                )
            except UpstreamError as error:
                entries, problems = [], []
                if not (isinstance(error, UpstreamRefusedError) and error.rpc_code == _METHOD_NOT_FOUND):
                    listing.is_stale = True
                    listing.retry_at = self._services.clock.now() + RETRY_SECONDS
                    self._connection.warn(f"listing its {listing.kind} failed: {describe_failure(error)}")
                    return
            except BaseException:
                listing.is_stale = True
                raise
            # Thousands of definitions take long to sanitise.
            built = await anyio.to_thread.run_sync(self._build, entries, list(problems), abandon_on_cancel=True)
            self.lock.apply(await anyio.to_thread.run_sync(self.lock.check, listing.kind, entries))
            self._apply(listing, *built)

    def _build(self, entries: Sequence[Any], problems: list[str]) -> tuple[list[Feature], list[Any], list[str]]:
        from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate  # noqa: PLC0415 - an extra

        features: dict[str, Feature] = {}
        templates: list[Any] = []
        for entry in entries:
            feature = build_feature(self.spec, self._rules, entry)
            if isinstance(feature, str):
                problems.append(feature)
                continue
            if feature.own_name in features:
                problems.append(f"it lists {feature.kind} {feature.own_name!r:.200} twice; the first is used")
                continue
            features[feature.own_name] = feature
            if feature.kind == "template":
                # One that cannot be parsed is shown; what it expands to is read like a resource that is not listed.
                with suppress(InvalidUriTemplate):
                    templates.append((feature, UriTemplate.parse(feature.own_name)))
        return list(features.values()), templates, problems

    def _apply(self, listing: _Listing, features: list[Feature], templates: list[Any], problems: list[str]) -> None:
        listing.listed_at = self._services.clock.now()
        listing.templates = templates
        for problem in problems:
            if problem not in listing.problems:
                self._connection.warn(f"is only partly listed: {problem}")
        listing.problems = tuple(problems)
        if [each.listed for each in features] == [each.listed for each in listing.features]:
            return
        listing.features = tuple(features)
        listing.by_name = {each.own_name: each for each in features}
        self._on_change(self, _capability(listing.kind))

    # --- while connected

    async def run(self, live: ActiveConnection) -> None:
        """List everything, and again after changes, until cancelled; nothing before the lists are followed."""
        self._adopt(live)
        await self._is_followed.wait()
        async with anyio.create_task_group() as group:
            group.start_soon(self.watch.run, live, self.notice, lambda: self._mark_stale(*KINDS))
            await self._read_stale()
            while True:
                await self._changed.wait()
                self._changed = anyio.Event()
                await self._read_stale()
                await self._services.clock.sleep(LISTING_SECONDS)

    def _adopt(self, live: ActiveConnection) -> None:
        """Take over a new connection: its server may have other lists than the last one."""
        if self._live is not live:
            self._live, self.declared = live, live.session.features.capabilities
            for listing in self._listings.values():
                listing.is_stale, listing.retry_at = True, -math.inf

    async def _read_stale(self) -> None:
        for listing in self._listings.values():
            if listing.is_stale:
                await self._read_listing(listing)

    def notice(self, event: "ServerEvent") -> None:
        """Note a change that the server reports."""
        match type(event).__name__:
            case "PromptsListChanged":
                self._mark_stale("prompts")
            case "ResourcesListChanged":
                self._mark_stale("resources", "templates")
            case "ResourceUpdated":
                self.watch.notify(cast("Any", event).uri)
            case _:
                pass

    def _mark_stale(self, *kinds: ListKind) -> None:
        for kind in kinds:
            self._listings[kind].is_stale = True
        self._changed.set()

    # --- reading

    def find_prompt(self, name: str) -> Feature | None:
        """Return the prompt of a name that clients use, unless it is withheld."""
        return next((each for each in self.get_shown("prompts") if each.name == name), None)

    def is_listed(self, uri: str) -> bool:
        """Return whether a resource of this URI of the server is listed, or a template that expands to it."""
        return uri in self._listings["resources"].by_name or bool(self.find_templates(uri))

    def find_templates(self, uri: str) -> list[Feature]:
        """Return the templates that expand to a URI of the server, except withheld ones."""
        return [
            feature
            for feature, template in self._listings["templates"].templates
            if template.match(uri) is not None and not self.is_withheld(feature.kind, feature.own_name)
        ]

    def may_read(self, uri: str) -> bool:
        """Return whether a URI of the server is not withheld, nor a template that may expand to it."""
        if self.is_withheld("app" if uri.startswith(UI) else "resource", uri):
            return False
        if uri in self._listings["resources"].by_name or self.find_templates(uri):
            return True
        # The server decides how its templates match, so what starts like a withheld one is refused.
        return not any(
            uri.startswith(each.own_name.partition("{")[0]) and self.is_withheld(each.kind, each.own_name)
            for each in self._listings["templates"].features
        )

    async def read(self, uri: str, *, ctx: ToolContext, given: "InputAnswers | None" = None) -> "ReadAnswer":
        """Read a resource by the server's own URI; with `given`, questions of the server are returned, not asked.

        Raises:
            UpstreamError: The server refused, cannot be connected, or did not answer in time.
        """
        seconds = self.spec.timeout_seconds + _SPARE_SECONDS

        async def send(session: "UpstreamSession", ask: "AnswerQuestions") -> "ReadAnswer":
            if given is not None:
                return await session.features.read(uri, given, seconds=seconds)
            return await session.features.answer_all(
                lambda answers: session.features.read(uri, answers, seconds=seconds), ask
            )

        answer: Any = await self._requests.send(send, method="resources/read", ctx=ctx)
        self.lock.check_content(uri, getattr(answer, "contents", ()))
        self._report("read", {"uri": self._rules.clean_uri(uri)})
        return self._rules.clean_read(answer, uri) if hasattr(answer, "contents") else self._clean_questions(answer)

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None,
        *,
        ctx: ToolContext,
        given: "InputAnswers | None" = None,
    ) -> "GetAnswer":
        """Get a prompt by the server's own name, like `read`.

        Raises:
            UpstreamError: The server refused, cannot be connected, or did not answer in time.
        """
        seconds = self.spec.timeout_seconds + _SPARE_SECONDS

        async def send(session: "UpstreamSession", ask: "AnswerQuestions") -> "GetAnswer":
            if given is not None:
                return await session.features.get_prompt(name, arguments, given, seconds=seconds)
            return await session.features.answer_all(
                lambda answers: session.features.get_prompt(name, arguments, answers, seconds=seconds), ask
            )

        answer: Any = await self._requests.send(send, method="prompts/get", ctx=ctx)
        self._report("prompt", {"prompt": name})
        return self._rules.clean_prompt(answer) if hasattr(answer, "messages") else self._clean_questions(answer)

    async def complete(self, params: "CompleteRequestParams", *, ctx: ToolContext) -> "CompleteResult":
        """Complete an argument of a prompt or template, by the server's own names.

        Raises:
            UpstreamError: The server refused, cannot be connected, or did not answer in time.
        """
        seconds = self.spec.timeout_seconds + _SPARE_SECONDS
        result = await self._requests.send(
            lambda session, _ask: session.features.complete(params, seconds=seconds),
            method="completion/complete",
            ctx=ctx,
        )
        values = [self._rules.clean_text(each) for each in result.completion.values[:_MAX_COMPLETIONS]]
        completion = result.completion.model_copy(update={"values": values})
        return result.model_copy(update={"completion": completion, "meta": self._rules.clean_meta(result.meta)})

    def _clean_questions(self, answer: Any) -> Any:
        """Return a server's questions to a client's user, with the server named; nothing else may be asked for."""
        asked = cast("dict[str, Any]", answer.input_requests or {})
        try:
            requests = clean_requests(self.spec.name, self._services.redactor, asked)
        except InvalidGateError as error:
            raise UpstreamError(
                f"MCP server {self.spec.name!r} asks what is not forwarded: {error}", server=self.spec.name
            ) from error
        return answer.model_copy(update={"input_requests": requests or None, "meta": None})

    def _report(self, what: str, payload: JsonObject) -> None:
        line = Logged(
            level="debug",
            message=f"{what} of MCP server {self.spec.name!r}",
            turn_id="",
            dispatch_id="",
            iteration=0,
            emitted_at=datetime.now(UTC),
            payload={"server": self.spec.name, **payload},
        )
        self._services.events.notify("log", line)


def _capability(kind: ListKind) -> ChangeKind:
    return "prompts" if kind == "prompts" else "resources"
