"""The extras in `spindle doctor`."""

from importlib.metadata import PackageNotFoundError, requires

import pytest

from spindle.cli import load_config
from spindle.cli.checks import extras as module
from spindle.cli.checks.extras import NEEDS, check_extras, extras
from tests.cli.conftest import Place

ASKING = """
[tools]
kit = true
[reach]
hosts = ["example.com"]
[journal]
url = "postgresql://db.example/x"
[storage]
url = "redis://cache.example"
[spool]
url = "s3://bucket"
[engine]
url = "temporal://engine.example"
[mcp.servers.a]
command = "x"
[profiles.p]
"""


@pytest.fixture
def without_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(module, "version", missing)


def test_extras_are_those_of_the_package() -> None:
    assert {line for line in requires("spindle") or () if "extra ==" in line}
    assert {"cli", "mcp", "kit", "server"} <= extras().keys()
    assert set(extras()["network"]) <= set(extras()["kit"])
    assert NEEDS.keys() <= extras().keys()


@pytest.mark.usefixtures("without_packages")
def test_extras_that_the_configuration_does_not_need_are_not_missed(place: Place) -> None:
    [check] = check_extras(load_config(state=place.state))

    assert (check.status, check.detail) == ("ok", "none")


@pytest.mark.usefixtures("without_packages")
def test_each_extra_that_the_configuration_needs_is_missed_with_its_line(place: Place) -> None:
    found = list(check_extras(load_config(place.configure(ASKING), state=place.state)))

    missed = {check.name: check for check in found if check.status == "failed"}
    assert missed.keys() == NEEDS.keys() - {"dbos", "openapi"}
    assert missed["mcp"].fix == "pip install '.[mcp]' in a clone of Spindle"


def test_installed_extras_are_one_line(place: Place) -> None:
    [check] = check_extras(load_config(place.configure(ASKING), state=place.state))

    assert check.status == "ok"
    assert "mcp" in check.detail.split(", ")
