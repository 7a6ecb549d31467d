"""Queries of large JSON and tables, beside parsing the same bytes once and beside the engine itself.

The cost grows with the length, so 20 MB stand for 100 MB of JSON Lines, and 40 MB for a document of 200 MB. With
`SPINDLE_BENCH_LARGE=1` all contents have five times the length, and the table has 1 GB.
"""

import atexit
import json
import os
import random
import shutil
import tempfile
from functools import cache
from pathlib import Path
from threading import Thread

import anyio
import duckdb
import jiter

from benchmarks.bench_spool import blocks
from benchmarks.harness import Benchmark
from spindle import JsonArtifact, Spool, TableArtifact

FACTOR = 5 if os.environ.get("SPINDLE_BENCH_LARGE") else 1
RECORDS = 90_000 * FACTOR
TABLE_BYTES = 200_000_000 * FACTOR


@cache
def lines() -> list[bytes]:
    dice = random.Random(20_26)
    return [
        json.dumps(
            {
                "id": number,
                "name": dice.choice(["alpha", "beta", "gamma"]),
                "price": round(dice.random() * 1000, 2),
                "tags": dice.choices("abcdef", k=3),
                "user": {"id": dice.randrange(10**6), "mail": f"user{number}@example.com"},
                "text": "lorem ipsum dolor sit amet " * dice.randrange(1, 6),
            }
        ).encode()
        for number in range(RECORDS)
    ]


@cache
def json_lines() -> JsonArtifact:
    return JsonArtifact.from_bytes(b"\n".join(lines()))


@cache
def document_bytes() -> bytes:
    return b"[" + b",".join(lines() * 2) + b"]"


@cache
def document() -> JsonArtifact:
    return JsonArtifact.from_bytes(document_bytes())


@cache
def table_path() -> Path:
    """A CSV file that goes when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="spindle-bench-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    rows = "".join(f"{number},{number % 7},note {number}\n" for number in range(100_000)).encode()
    with (folder / "table.csv").open("wb") as file:
        file.write(b"id,week_day,note\n")
        for _ in range(TABLE_BYTES // len(rows)):
            file.write(rows)
    return folder / "table.csv"


@cache
def table() -> TableArtifact:
    """The same file in a spool, written in an event loop of its own."""
    kept: list[TableArtifact] = []

    def keep() -> None:
        spool = Spool.files(table_path().parent / "spool")
        kept.append(TableArtifact(anyio.run(spool.write, "table", blocks(table_path()))))

    thread = Thread(target=keep)
    thread.start()
    thread.join()
    return kept[0]


def parse_lines() -> None:
    for line in lines():
        jiter.from_json(line, cache_mode="keys")


def parse_document() -> None:
    jiter.from_json(document_bytes(), cache_mode="keys")


def count_directly() -> None:
    with duckdb.connect(config={"threads": "2"}) as connection:
        sql = "SELECT week_day, count(*) FROM read_csv(?, parallel = false) GROUP BY 1 ORDER BY 2 DESC"
        connection.execute(sql, [str(table_path())]).fetchall()


BENCHMARKS = [
    Benchmark(
        name="json: a path over JSON Lines / parsing the lines",
        floor=parse_lines,
        subject=lambda: json_lines().get("$.user.nothing"),
        aim=2.0,
        clock="cpu",
        note="Half of the time is jiter's; the rest is one step of two generators and of the path for each line.",
    ),
    Benchmark(
        name="json: a filter over JSON Lines / parsing the lines",
        floor=parse_lines,
        subject=lambda: json_lines().filter("$.user[?@ == 'unknown']"),
        clock="cpu",
    ),
    Benchmark(
        name="json: a filter over a large document / parsing it",
        floor=parse_document,
        subject=lambda: document().filter("$[?@.price > 1000]"),
        aim=2.0,
        clock="cpu",
    ),
    Benchmark(
        name="table: group_counts over CSV / DuckDB itself",
        floor=count_directly,
        subject=lambda: table().group_counts("week_day"),
        aim=1.5,
    ),
]
