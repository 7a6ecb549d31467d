"""Sample files for the scratch workspace of the embedded defaults, so that there is something to try tools on.

They are generated, the same ones everywhere. A workspace that a configuration names, or that has any file, is left as
it is.
"""

import random
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from spindle.cli.config.loader import Config
from spindle.json_types import JsonObject

LOG_NAME: Final = "samples/requests.log"
"""About 300 KB: more than a result may have, so that reading it shows how large results are kept."""
TABLE_NAME: Final = "samples/orders.csv"
_SEED: Final = 20
_LOG_LINES: Final = 3_600
_ORDERS: Final = 400
_START: Final = datetime(2026, 1, 5, 6, 0, tzinfo=UTC)
_PATHS: Final = ("/", "/orders", "/orders/{n}", "/cart", "/search?q=lamp", "/login", "/static/page.css", "/health")
_GOODS: Final = (("lamp", 39.5), ("desk", 249.0), ("chair", 119.0), ("shelf", 84.9), ("rug", 64.0), ("mirror", 55.25))
_CITIES: Final = ("Bergen", "Graz", "Lyon", "Porto", "Riga", "Turku")


def has_empty_scratch(config: Config) -> bool:
    """Return whether the workspace is the scratch folder of the embedded defaults, and empty."""
    if config.file is not None or config.reach.root is not None or not config.tools.kit:
        return False
    try:
        return not any(config.root.iterdir())
    except OSError:
        return False


def write_samples(config: Config) -> None:
    """Write the sample files; without room for them there are none."""
    with suppress(OSError):
        for name, lines in ((LOG_NAME, _write_log()), (TABLE_NAME, _write_orders())):
            path = config.root / name
            path.parent.mkdir(mode=0o700, exist_ok=True)
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def suggest_arguments(config: Config) -> dict[str, tuple[JsonObject, ...]]:
    """Return arguments for tools of the kit that work on the samples, if these are there."""
    if config.file is not None or config.reach.root is not None or not _has_samples(config.root):
        return {}
    return {
        "read_file": ({"path": LOG_NAME}, {"path": TABLE_NAME}, {"path": LOG_NAME, "start_line": 1, "end_line": 20}),
        "list_dir": ({"path": "samples"},),
        "search_files": ({"pattern": " 50[0-9] ", "path": "samples"},),
        "calculate": ({"expression": "6 * 7"},),
    }


def _has_samples(root: Path) -> bool:
    return (root / LOG_NAME).is_file()


def _write_log() -> Iterator[str]:
    """Yield the lines of a web server's log with a burst of errors in its second half."""
    chance, moment = random.Random(_SEED), _START  # noqa: S311  a sample, the same everywhere
    for number in range(_LOG_LINES):
        moment += timedelta(milliseconds=chance.randrange(50, 20_000))
        is_bad_hour = 2_100 <= number < 2_160
        status = chance.choices((200, 304, 404, 500, 503), (90, 5, 3, 0.2, 18 if is_bad_hour else 0.05))[0]
        path = chance.choice(_PATHS).format(n=1_000 + chance.randrange(_ORDERS))
        took = chance.randrange(2, 90) + (3_000 if status == 503 else 0)
        yield (
            f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z INFO request id=r{number:05} "
            f"GET {path} {status} {took} ms from 10.0.{chance.randrange(4)}.{chance.randrange(1, 255)}"
        )


def _write_orders() -> Iterator[str]:
    """Yield a table of orders as CSV."""
    chance = random.Random(_SEED)  # noqa: S311  see above
    yield "order,day,city,article,count,price"
    for number in range(_ORDERS):
        day = (_START + timedelta(days=number // 9)).date()
        article, price = chance.choice(_GOODS)
        yield f"{1_000 + number},{day},{chance.choice(_CITIES)},{article},{chance.randrange(1, 6)},{price:.2f}"
