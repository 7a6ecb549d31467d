"""Texts of about one megabyte like those that tools return, the same in every run, with their true token counts."""

import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Final

VOCABULARY: Final = (
    "the of and to in a is that for it as was with be by on not he his but at are this have from or had an they which "
    "one you were her all she there would their we him been has when who will more no if out so said what up its about "
    "into than them can only other new some could time these two may then do first any my now such like our over man "
    "even most made after also did many before must through back years where much your way well down should because "
    "each just those people how too little state good very make world still own see men work long get here between "
    "both life being under never day same another know while last might us great old year off come since against go "
    "came right used take three machine thread weather garden question measure remember careful morning distance "
    "government understanding responsible independent temperature agriculture neighbouring manufacturer correspondence"
)
WORDS: Final = VOCABULARY.split()
NAMES: Final = ("Anna Weber", "Luis Ortega", "Mei Tanaka", "Omar Haddad", "Ingrid Olsen", "Paul Novak", "Sara Lind")
CITIES: Final = ("Berlin", "Lisbon", "Osaka", "Toronto", "Nairobi", "Oslo", "Santiago")
O200K_TOKENS: Final = {"log": 503_316, "JSON": 366_380, "HTML": 233_042, "CSV": 469_703, "prose": 204_343}
"""The number of tokens of each text, as tiktoken 0.14 counts them with o200k_base."""


def build_log(random: Random) -> str:
    """A server's log, one line in a hundred of which is an error."""
    lines: list[str] = []
    for number in range(9_400):
        day, hour, minute = 1 + number // 400, number // 60 % 24, number % 60
        head = f"2026-03-{day:02d}T{hour:02d}:{minute:02d}:{minute:02d}.{number % 997:03d}Z"
        path = random.choice(("/api/orders", "/api/users", "/health", "/api/search", "/static/app.js"))
        request = f"{random.getrandbits(48):012x}"
        if number % 100 == 57:
            lines.append(
                f"{head} ERROR worker-{number % 8} request={request} upstream timed out after 30000 ms: {path}"
            )
        else:
            size, took = random.randrange(200, 90_000), random.randrange(1, 900)
            status = random.choice((200, 200, 200, 204, 301, 404))
            client = f"10.{number % 4}.{random.randrange(256)}.{random.randrange(256)}"
            lines.append(
                f'{head} INFO worker-{number % 8} {client} "GET {path}?id={number}" {status} {size} {took}ms {request}'
            )
    return "\n".join(lines)


def build_json(random: Random) -> str:
    """One document with a list of orders."""
    orders = [
        {
            "id": f"ord_{random.getrandbits(40):010x}",
            "customer": {"name": random.choice(NAMES), "city": random.choice(CITIES), "vip": number % 9 == 0},
            "items": [
                {"sku": f"SKU-{random.randrange(10_000):05d}", "quantity": random.randrange(1, 9), "price": 19.95}
                for _ in range(2)
            ],
            "note": " ".join(random.choices(WORDS, k=8)),
            "created_at": f"2026-02-{1 + number % 28:02d}T08:{number % 60:02d}:00Z",
            "total": round(random.uniform(5, 900), 2),
        }
        for number in range(2_950)
    ]
    return json.dumps({"orders": orders, "next": None})


def build_html(random: Random) -> str:
    """A page with a list of articles."""
    articles = "\n".join(
        f'  <article class="post card" id="post-{number}">\n'
        f'    <h2><a href="/blog/{number}/{"-".join(random.choices(WORDS, k=4))}">{_sentence(random, 6)}</a></h2>\n'
        f'    <p class="meta">By <span class="author">{random.choice(NAMES)}</span> &middot; '
        f'<time datetime="2026-01-{1 + number % 28:02d}">{1 + number % 28} January 2026</time></p>\n'
        f"    <p>{_sentence(random, 30)} {_sentence(random, 25)}</p>\n"
        f"  </article>"
        for number in range(1_470)
    )
    head = '<meta charset="utf-8">\n  <link rel="stylesheet" href="/static/site.css">\n  <title>Blog</title>'
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>\n  {head}\n</head>\n<body>\n{articles}\n</body>\n</html>\n'


def build_csv(random: Random) -> str:
    """A table of sales."""
    rows = ["order_id,date,customer,city,sku,quantity,unit_price,total"]
    for number in range(15_000):
        quantity, cents = random.randrange(1, 9), random.randrange(100, 20_000)
        who, city = random.choice(NAMES), random.choice(CITIES)
        date = f"2026-{1 + number % 12:02d}-{1 + number % 28:02d}"
        sku = f"SKU-{random.randrange(10_000):05d}"
        rows.append(f"{number},{date},{who},{city},{sku},{quantity},{cents / 100:.2f},{quantity * cents / 100:.2f}")
    return "\n".join(rows) + "\n"


def build_prose(random: Random) -> str:
    """Sentences in paragraphs."""
    paragraphs = (
        " ".join(_sentence(random, random.randrange(6, 25)) for _ in range(random.randrange(3, 8)))
        for _ in range(2_450)
    )
    return "\n\n".join(paragraphs)


def _sentence(random: Random, words: int) -> str:
    chosen = random.choices(WORDS, k=words)
    if words > 12:
        chosen[words // 2] += ","
    return " ".join(chosen).capitalize() + "."


BUILDERS: Final[Mapping[str, Callable[[Random], str]]] = {
    "log": build_log,
    "JSON": build_json,
    "HTML": build_html,
    "CSV": build_csv,
    "prose": build_prose,
}


def build_text(kind: str) -> str:
    """Return the text of a kind, the same in every run."""
    return BUILDERS[kind](Random(16))
