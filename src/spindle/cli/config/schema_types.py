"""Types that the tables of `spindle.toml` share."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Text = Annotated[str, StringConstraints(min_length=1)]
Texts = Annotated[tuple[Text, ...], Field(strict=False)]
Table = dict[str, str]
ObjectPath = Annotated[str, StringConstraints(pattern=r"^[\w.]+:[\w.]+$")]
Port = Annotated[int, Field(ge=0, le=65535)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
SecretName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_./-]*$", max_length=200)]

MEMORY = "memory"
"""Value of a path setting that keeps the data in memory."""


class ConfigSection(BaseModel):
    """Base of all tables: frozen, and unknown keys are rejected."""

    # Deferred, so that start-up without a configuration file does not build the validators.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)
