"""The description of the API: valid OpenAPI 3.1, complete, and readable by our own importer."""

import json
import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from spindle.inspector.api import ENDPOINTS
from spindle.inspector.endpoints import PREFIX
from spindle.inspector.openapi import build_document
from spindle.kit.openapi import parse_description
from tests.inspector.benching import Bench


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return build_document(ENDPOINTS, version="1")


@pytest.mark.anyio
async def test_the_document_is_served_to_users_who_are_logged_in() -> None:
    bench = Bench()
    async with bench.log_in() as client, bench.connect() as stranger:
        assert (await stranger.get("/openapi.json")).status_code == 401
        served = (await client.get("/openapi.json")).json()

    assert served["openapi"] == "3.1.0"
    assert served["info"]["version"] == "1.2.3"
    assert served["components"]["securitySchemes"]["login"]["name"] == bench.logins.cookie


def test_every_endpoint_is_described_once_with_a_schema_that_is_valid(document: dict[str, Any]) -> None:
    operations = {
        (path, method): operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    expected = {(PREFIX + re.sub(r":\w+}", "}", each.path), each.method.lower()) for each in ENDPOINTS}

    assert expected <= set(operations)
    assert len(expected) == len(ENDPOINTS)
    ids = [operation["operationId"] for operation in operations.values()]
    assert len(ids) == len(set(ids))
    for (path, _), operation in operations.items():
        named = {each["name"] for each in operation.get("parameters", []) if each["in"] == "path"}
        assert named == set(re.findall(r"{(\w+)}", path)), path
        assert operation["summary"]
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    found = set(re.findall(r'"\$ref": "#/components/schemas/([^"]+)"', json.dumps(document)))

    assert found
    assert found <= set(document["components"]["schemas"])


def test_everything_but_the_login_needs_the_token_of_the_page(document: dict[str, Any]) -> None:
    own = {
        path: each["security"]
        for path, ways in document["paths"].items()
        for each in ways.values()
        if "security" in each
    }

    assert document["security"] == [{"login": [], "page": []}, {"token": []}]
    assert own == {f"{PREFIX}/login": [], f"{PREFIX}/proof": []}
    assert "operator" in document["paths"][f"{PREFIX}/approvals/{{id}}/approve"]["post"]["description"]


def test_our_own_importer_reads_the_document(document: dict[str, Any]) -> None:
    assert set(parse_description(json.dumps(document))["paths"]) == set(document["paths"])


@pytest.mark.slow
def test_a_validator_of_openapi_accepts_the_document(document: dict[str, Any]) -> None:
    validator = pytest.importorskip("openapi_spec_validator", reason="needs openapi-spec-validator")

    validator.validate(document)
