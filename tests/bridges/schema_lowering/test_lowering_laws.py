"""The laws of lowering, over schemas of every kind and over the corpus of real ones."""

from typing import Any
from urllib.parse import unquote

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.corpus import CorpusTool, forms
from spindle.bridges.provider_limits import Rules
from spindle.bridges.schema_lowering.lowering import Lowered, lower
from spindle.errors import CannotLowerError
from spindle.tools import RawSchema
from tests.bridges.loss_walk import ADDED_BY, Walk, is_array, is_object
from tests.bridges.sample_schemas import Sampler, schemas
from tests.fuzzing import examples

FORMS = {name: rules for name, rules, _ in forms() if name not in ("openai_responses", "openai_responses strict")}
BY_FORM = pytest.mark.parametrize("form", list(FORMS))
SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
WIDELY = settings(deadline=None, max_examples=examples(25), suppress_health_check=SLOW)


def lowered_or_none(schema: dict[str, Any], rules: Rules) -> Lowered | None:
    try:
        return lower(schema, rules)
    except CannotLowerError as error:
        refused = error
    assert refused.why
    assert resolves(schema, refused.path), refused.path
    return None


def resolves(schema: Any, path: str) -> bool:
    for step in path.split("/")[1:]:
        try:
            schema = schema[int(step)] if is_array(schema) else schema[step.replace("~1", "/").replace("~0", "~")]
        except (KeyError, IndexError, ValueError, TypeError):
            return False
    return True


# The loss law


def check_losses(schema: dict[str, Any], lowered: Lowered, *, flags_null: bool) -> None:
    reported = {(loss.path, loss.keyword) for loss in lowered.losses}
    at = {f"{path}/{keyword}" for path, keyword in reported}

    def is_covered(path: str, keyword: str) -> bool:
        return (path, keyword) in reported or any(path.startswith(f"{each}/") or path == each for each in at)

    words = {loss.path for loss in lowered.losses if "moved to the description" in loss.detail}
    opened = {loss.path for loss in lowered.losses if (loss.keyword, loss.action) == ("$ref", "dropped")}
    walk = Walk(schema, lowered.schema, opened, flags_null).run()
    silent = {place for place in walk.changed if not is_covered(*place)}
    assert not silent, f"lost without a word: {sorted(silent)}\n{lowered.schema}"
    sure = {place for place in walk.kept - walk.shared if place[1] != "nullable"}
    phantom = {place for place in sure & reported if not (walk.skipped and place[0].startswith("/$defs/"))}
    assert not phantom, f"reported as lost, but emitted: {sorted(phantom)}\n{lowered.schema}"
    for paths, keyword in walk.added:
        assert is_explained(paths, keyword, reported, words), (
            f"added without a word: {keyword} at {paths}\n{lowered.schema}"
        )
    assert {f"{path}/{keyword}" for path, keyword in sure - reported} <= set(lowered.kept)
    assert not at & set(lowered.kept)
    for loss in lowered.losses:
        assert loss.detail
        assert resolves(schema, loss.path), f"no such place: {loss}"


def is_explained(paths: tuple[str, ...], keyword: str, reported: set[tuple[str, str]], words: set[str]) -> bool:
    if keyword == "description" and (words & set(paths) or any((path, "prefixItems") in reported for path in paths)):
        return True
    if keyword == "$defs" and paths == ("",):
        return any(each == "$ref" for _, each in reported)
    allowed = ADDED_BY.get(keyword, set()) | {keyword}
    return any((path, each) in reported for path in paths for each in allowed)


@BY_FORM
@given(schema=schemas())
@WIDELY
def test_nothing_is_lost_without_a_word_and_no_loss_is_made_up(form: str, schema: dict[str, Any]) -> None:
    lowered = lowered_or_none(schema, FORMS[form])
    if lowered is not None:
        check_losses(schema, lowered, flags_null=form == "gemini")


@pytest.mark.slow
@pytest.mark.timeout(600)
@BY_FORM
@given(schema=schemas(), seed=st.integers(0, 1000))
@settings(WIDELY, max_examples=400)
def test_the_laws_hold_for_many_more_schemas(form: str, schema: dict[str, Any], seed: int) -> None:
    lowered = lowered_or_none(schema, FORMS[form])
    if lowered is not None:
        check_losses(schema, lowered, flags_null=form == "gemini")
        check_agreement(schema, form, lowered, Sampler(schema, seed).value(schema))


@BY_FORM
def test_nothing_of_the_corpus_is_lost_without_a_word(form: str, corpus_tools: list[CorpusTool]) -> None:
    emitted = 0
    for tool in corpus_tools:
        lowered = lowered_or_none(tool.schema, FORMS[form])
        if lowered is not None:
            check_losses(tool.schema, lowered, flags_null=form == "gemini")
            emitted += 1
    assert emitted == len(corpus_tools) if "strict" not in form else emitted > 0.95 * len(corpus_tools)


# The agreement law


def plain_schema(value: Any) -> Any:
    """A schema with `nullable`, as JSON Schema has it."""
    if is_array(value):
        return [plain_schema(each) for each in value]
    if not is_object(value):
        return value
    node = {key: plain_schema(each) for key, each in value.items()}
    if node.get("nullable") is True:
        del node["nullable"]
        return {"anyOf": [node, {"type": "null"}]}
    return node


class Wire:
    """Arguments as a model would send them: by the names on the wire, and in strict forms with every property."""

    def __init__(self, lowered: Lowered, names: dict[str, str], *, fills: bool, flags_null: bool) -> None:
        self._flags_null = flags_null
        self._root = lowered.schema
        self._names = names
        self._fills = fills

    def sent(self, value: Any, low: Any) -> Any:
        if not is_object(low):
            return value
        if "$ref" in low:
            target: Any = self._root
            for step in low["$ref"].split("/")[1:]:
                target = target[unquote(step).replace("~1", "/").replace("~0", "~")]
            return self.sent(value, target)
        if "anyOf" in low or "oneOf" in low:
            for branch in low.get("anyOf") or low["oneOf"]:
                sent = self.sent(value, branch)
                if self._fits(sent, branch):
                    return sent
        if is_object(value):
            return self._object(value, low)
        if is_array(value):
            prefix = low.get("prefixItems", [])
            kinds = [*prefix, *[low.get("items")] * len(value)]
            return [self.sent(each, kind) for each, kind in zip(value, kinds, strict=False)]
        return value

    def _object(self, value: dict[str, Any], low: dict[str, Any]) -> dict[str, Any]:
        known = self._known(low)
        # Only what is described has another name on the wire; a free object is sent as it is.
        wire = {name: self._names.get(name, name) for name in value}
        wire = {name: other if other in known else name for name, other in wire.items()}
        sent = {
            wire[name]: self.sent(each, known.get(wire[name], low.get("additionalProperties")))
            for name, each in value.items()
        }
        return {**dict.fromkeys(known if self._fills else (), None), **sent}

    def _known(self, low: dict[str, Any]) -> dict[str, Any]:
        known: dict[str, Any] = dict(low.get("properties", {}))
        for part in low.get("allOf", []):
            for name, schema in self._known(part).items():
                known[name] = {"allOf": [known[name], schema]} if name in known else schema
        return known

    def _fits(self, value: Any, branch: Any) -> bool:
        shelves = {key: self._root[key] for key in ("$defs", "definitions") if key in self._root}
        schema = {**branch, **shelves} if is_object(branch) else branch
        schema = plain_schema(schema) if self._flags_null else schema
        return jsonschema_rs.validator_for(schema, validate_formats=False).is_valid(value)


def without_nulls(value: Any) -> Any:
    if is_object(value):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    if is_array(value):
        return [without_nulls(each) for each in value]
    return value


WIRE_NAMES = {"d e": "d_e", "f-g": "f_g", "$h": "_h"}


def check_agreement(schema: dict[str, Any], form: str, lowered: Lowered, args: dict[str, Any]) -> bool:
    """Send arguments over the wire and back; gives whether that could be tried."""
    own = jsonschema_rs.validator_for(schema, validate_formats=False)
    if not own.is_valid(args):
        return False
    names: dict[str, str] = {}
    if "gemini" in form:
        names = WIRE_NAMES
    elif "anthropic" in form or "bedrock" in form:
        names = {"d e": "d_e", "$h": "_h"}
    sent = Wire(lowered, names, fills="openai" in form and "strict" in form, flags_null=form == "gemini").sent(
        args, lowered.schema
    )
    emitted_schema = plain_schema(lowered.schema) if "gemini" in form else lowered.schema
    emitted = jsonschema_rs.validator_for(emitted_schema, validate_formats=False)
    if not any(loss.narrows for loss in lowered.losses):
        assert emitted.is_valid(sent), f"emitted more narrowly than it is: {sent}\n{lowered.schema}"
    elif not emitted.is_valid(sent):
        return False
    back = lowered.restore(sent) if lowered.restore else sent
    assert without_nulls(back) == without_nulls(args), f"{sent} came back as {back}"
    assert own.is_valid(back), f"{args} came back as {back}, which does not fit"
    return True


@BY_FORM
@given(schema=schemas(), seed=st.integers(0, 1000))
@WIDELY
def test_valid_arguments_fit_the_lowered_schema_and_are_restored_unchanged(
    form: str, schema: dict[str, Any], seed: int
) -> None:
    lowered = lowered_or_none(schema, FORMS[form])
    if lowered is not None:
        check_agreement(schema, form, lowered, Sampler(schema, seed).value(schema))


@BY_FORM
def test_arguments_of_the_corpus_come_back_the_same(form: str, corpus_tools: list[CorpusTool]) -> None:
    tried = 0
    for number, tool in enumerate(corpus_tools):
        lowered = lowered_or_none(tool.schema, FORMS[form])
        if lowered is not None:
            tried += check_agreement(tool.schema, form, lowered, Sampler(tool.schema, number).value(tool.schema))
    assert tried > 0.9 * len(corpus_tools)


@BY_FORM
@given(schema=schemas())
@settings(WIDELY, max_examples=examples(15))
def test_the_lowered_schema_is_valid_and_deterministic(form: str, schema: dict[str, Any]) -> None:
    lowered = lowered_or_none(schema, FORMS[form])
    if lowered is not None:
        assert jsonschema_rs.meta.is_valid(lowered.schema)
        RawSchema(lowered.schema, tool="t")
        again = lower(schema, FORMS[form])
        assert (again.schema, again.losses, again.kept) == (lowered.schema, lowered.losses, lowered.kept)
