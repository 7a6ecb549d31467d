import pytest

from spindle.errors import MissingExtraError
from spindle.extras import needs_extra


def test_an_absent_package_is_an_error_that_says_what_to_install() -> None:
    with pytest.raises(MissingExtraError) as caught, needs_extra("tables"):
        import a_package_that_does_not_exist  # pyright: ignore[reportMissingImports, reportUnusedImport] # noqa: F401 - that is the point

    assert "pip install '.[tables]'" in caught.value.message
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_other_errors_pass_through() -> None:
    with pytest.raises(KeyError), needs_extra("tables"):
        raise KeyError("x")
