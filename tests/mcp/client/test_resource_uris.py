"""Laws of the URIs that the gateway gives to resources of upstream servers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.shared.uri_template import UriTemplate

from spindle.mcp.client.resource_uris import UriMapping

NAMES = st.text(min_size=1, max_size=20)
URIS = st.one_of(
    st.text(max_size=40),
    st.builds(
        "{}{}".format, st.sampled_from(["ui://", "file:///", "spindle://", "ui:", "UI://"]), st.text(max_size=30)
    ),
)


@settings(max_examples=40)
@given(NAMES, URIS, st.booleans())
def test_a_uri_comes_back_as_it_was(server: str, uri: str, is_prefixed: bool) -> None:
    mapping = UriMapping(server, is_prefixed)

    assert mapping.to_server(mapping.to_gateway(uri)) == uri


@settings(max_examples=40)
@given(NAMES, NAMES, URIS, URIS)
def test_two_resources_never_get_the_same_uri(one: str, other: str, uri: str, another: str) -> None:
    is_same = UriMapping(one).to_gateway(uri) == UriMapping(other).to_gateway(another)

    assert is_same == ((one, uri) == (other, another))


@settings(max_examples=40)
@given(NAMES, NAMES, URIS)
def test_a_uri_belongs_to_one_server_only(one: str, other: str, uri: str) -> None:
    assert (UriMapping(other).to_server(UriMapping(one).to_gateway(uri)) is not None) == (one == other)


@settings(max_examples=40)
@given(NAMES, URIS)
def test_a_uri_of_a_server_has_one_form(server: str, uri: str) -> None:
    mapping = UriMapping(server)
    own = mapping.to_server(uri)

    assert own is None or mapping.to_gateway(own) == uri


@settings(max_examples=40)
@given(NAMES, st.dictionaries(st.sampled_from(["path", "id"]), st.text(max_size=20), min_size=2))
def test_a_template_expands_to_the_uri_of_what_it_expands_to_upstream(server: str, values: dict[str, str]) -> None:
    mapping = UriMapping(server)
    for template in ("file:///{+path}/x{?id}", "ui://{id}/{path}", "{id}://{path}"):
        mapped = UriTemplate.parse(mapping.to_gateway(template)).expand(values)
        expanded = UriTemplate.parse(template).expand(values)
        if not expanded.startswith("ui://") or template.startswith("ui://"):
            assert mapped == mapping.to_gateway(expanded)


@pytest.mark.parametrize(
    ("server", "uri", "mapped"),
    [
        ("files", "file:///a b", "spindle://files/file:///a b"),
        ("files", "ui://clock/main.html", "ui://files/clock/main.html"),
        ("a/b {c}", "x:1", "spindle://a%2Fb%20%7Bc%7D/x:1"),
    ],
)
def test_uris_are_mapped(server: str, uri: str, mapped: str) -> None:
    assert UriMapping(server).to_gateway(uri) == mapped


def test_a_resource_of_an_app_has_no_second_name() -> None:
    assert UriMapping("s").to_server("spindle://s/ui://app") is None
    assert UriMapping("s").to_server("spindle://%73/x:1") is None
