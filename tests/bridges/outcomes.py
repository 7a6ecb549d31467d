"""What became of calls, one of each kind, and renderings that can be compared."""

import json
import re
from pathlib import Path
from typing import Any

from spindle import Artifact, CallOutcome, Err, Media, Ok

PNG = bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010806000000")
GOLDEN = Path(__file__).parent / "golden" / "results"


def outcome(id: str, result: Ok | Err, name: str = "add") -> CallOutcome:
    return CallOutcome(id, name, "0" * 64, result)


def picture(name: str = "chart.png") -> Media:
    return Media.from_bytes(
        PNG,
        kind="image",
        mime_type="image/png",
        filename=name,
        trust_tier="third-party-public",
        modality_hazard="inert",
        id=name,
    )


OUTCOMES = [
    outcome("c1", Ok("42", structured={"result": 42})),
    outcome("c2", Err("input_invalid", "b is missing", field="b")),
    outcome("c3", Ok("", media=(picture(),)), "draw"),
    outcome("c4", Ok("see these", media=(picture("a.png"), picture("b.png")), trusted=True), "draw"),
    outcome("c5", Ok("", artifact=Artifact.from_text("x\ny")), "read"),
    outcome("c6", Ok("")),
]


def steady(rendered: Any) -> Any:
    """Replace the nonces, which are random for each render."""
    return json.loads(re.sub("(?<=trusted_content_)[a-z]{16}", "NONCE", json.dumps(rendered)))
