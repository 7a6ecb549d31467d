"""Canonical JSON against `json.dumps(…, sort_keys=True)`, the least anyone would pay for a stable text of arguments."""

import json
from typing import Any

from spindle.tools import canonical_json

WITH_FLOATS: dict[str, Any] = {
    "customer": {
        "id": "cus_9f8e7d6c5b4a",
        "name": "Zoë Müller-Łukasiewicz",
        "email": "zoe@shop.example",
        "vip": True,
        "note": None,
    },
    "query": "orders placed after the spring sale, sorted by value, «returned» ones included",
    "filters": {
        "status": ["open", "paid", "shipped", "returned"],
        "placed_after": "2024-03-01T00:00:00Z",
        "placed_before": "2024-06-30T23:59:59Z",
        "total_min": 19.99,
        "total_max": 2500.0,
        "countries": ["DE", "PL", "FR", "日本"],
        "include_archived": False,
    },
    "page": {"limit": 50, "offset": 150, "cursor": "eyJpZCI6MTIzNDU2Nzg5MCwidCI6MTcxMDAwMDAwMH0="},
    "items": [
        {"sku": "TSH-0001-BLK-M", "quantity": 2, "price": 24.5},
        {"sku": "MUG-0042", "quantity": 1, "price": 12.0},
    ],
    "reason": 'The customer wrote: "my parcel never arrived" and asks for a refund.\n'
    "Please check the carrier's answer first; then reply politely in German (Grüße!).",
    "tags": ["urgent", "refund", "carrier:dhl"],
    "dry_run": False,
    "max_results": 25,
}
"""About 1 KB, as a model would send it."""


WITHOUT_FLOATS: dict[str, Any] = json.loads(json.dumps(WITH_FLOATS), parse_float=lambda text: round(float(text) * 100))

ARGUMENTS: dict[str, Any] = {
    "1 KB without floats": WITHOUT_FLOATS,
    "1 KB with floats": WITH_FLOATS,
    "tiny": {"query": "hello"},
}


def ours(argument: Any) -> bytes:
    return canonical_json(argument)


def floor(argument: Any) -> str:
    return json.dumps(argument, sort_keys=True)
