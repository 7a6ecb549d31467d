"""`spindle.lock`: what is written is read back, whatever the definitions contain, and an edited file is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.errors import InvalidLockError
from spindle.mcp.lock import KINDS, DefinitionKind, Listing, LockedServer, LockFile

KEYS: dict[DefinitionKind, str] = {
    "tool": "name",
    "prompt": "name",
    "resource_template": "uriTemplate",
    "app": "uri",
}
texts = st.text(max_size=20)
names = st.text(min_size=1, max_size=20)
values: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def servers(draw: st.DrawFn) -> LockedServer:
    definitions: Any = {
        kind: Listing.read(
            kind,
            [
                draw(st.dictionaries(texts, values, max_size=3)) | {KEYS[kind]: name, "description": draw(texts)}
                for name in draw(st.lists(names, max_size=2, unique=True))
            ],
        ).definitions
        for kind in KINDS
    }
    return LockedServer(
        origin={"command": draw(st.lists(texts, max_size=3))},
        program=draw(st.dictionaries(texts, texts, max_size=2)),
        protocol=draw(st.none() | texts),
        capabilities=draw(st.dictionaries(texts, values, max_size=2)),
        definitions={kind: named for kind, named in definitions.items() if named},
    )


@given(st.dictionaries(names, servers(), max_size=2))
def test_a_lock_is_read_back_as_it_was_written(locked: dict[str, LockedServer]) -> None:
    lock = LockFile(servers=locked)

    text = lock.to_text()

    assert LockFile.parse(text) == lock
    assert LockFile.parse(text).to_text() == text
    assert text.endswith("}\n")


@given(servers(), st.randoms())
def test_the_order_of_a_listing_does_not_change_the_file(server: LockedServer, random: Any) -> None:
    shuffled: Any = {
        kind: dict(random.sample(list(named.items()), len(named))) for kind, named in server.definitions.items()
    }
    other = LockedServer(
        origin=server.origin,
        program=dict(reversed(server.program.items())),
        protocol=server.protocol,
        capabilities=dict(reversed(server.capabilities.items())),
        definitions=shuffled,
    )

    assert LockFile(servers={"a": other}).to_text() == LockFile(servers={"a": server}).to_text()


def test_naughty_strings_do_not_break_the_format_and_hide_nothing(shared_data: Path) -> None:
    strings: list[str] = json.loads((shared_data / "naughty-strings" / "blns.json").read_text(encoding="utf-8"))
    named = [
        {"name": text, "description": text, "inputSchema": {"type": "object", "properties": {text: {"title": text}}}}
        for text in {*strings, '"}]', "\u202e\u2066", "\U000e0041", "\u2028"}
        if text
    ]
    listing = Listing.read("tool", named)
    lock = LockFile(servers={text: LockedServer(origin={"command": [text]}) for text in strings if text})
    lock = LockFile(servers={**lock.servers, "a": LockedServer(definitions={"tool": listing.definitions})})

    text = lock.to_text()

    assert len(listing.definitions) == len(named)
    assert LockFile.parse(text) == lock
    assert not {"\u200b", "\u202e", "\u2066", "\U000e0041", "\u2028", "\x00", "\x1b"} & set(text)


def write_example(path: Path) -> Any:
    listing = Listing.read("tool", [{"name": "a", "description": "Reads.", "inputSchema": {"type": "object"}}])
    LockFile(servers={"s": LockedServer(definitions={"tool": listing.definitions})}).write(path)
    return json.loads(path.read_text(encoding="utf-8"))


def test_an_entry_has_the_hashes_the_price_and_the_whole_definition(tmp_path: Path) -> None:
    content = write_example(tmp_path / "spindle.lock")

    entry = content["servers"]["s"]["definitions"]["tool"]["a"]
    assert set(entry) == {"fingerprint", "description", "tokens", "definition"}
    assert entry["definition"]["description"] == "Reads."
    assert entry["tokens"] > 5


def change(content: Any, *path: str, to: object) -> Any:
    part = content
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = to
    return content


ENTRY = ("servers", "s", "definitions", "tool", "a")
EDITS: list[tuple[tuple[str, ...], object]] = [
    (("spindle_lock",), 2),
    (("spindle_lock",), True),
    (("spindle_lock",), 1.0),
    (("servers",), []),
    (("more",), 1),
    (("servers", "s"), None),
    (("servers", "s", "protocol"), 3),
    (("servers", "s", "definitions", "spell"), {}),
    ((*ENTRY, "definition", "description"), "Reads, and sends."),
    ((*ENTRY, "definition", "name"), "b"),
    ((*ENTRY, "definition"), "a"),
    ((*ENTRY, "fingerprint"), "sha256:0"),
    ((*ENTRY, "description"), "sha256:0"),
    ((*ENTRY, "extra"), 1),
]


@pytest.mark.parametrize(("place", "value"), EDITS, ids=[f"{'.'.join(place)}={value}" for place, value in EDITS])
def test_an_edited_file_is_refused(tmp_path: Path, place: tuple[str, ...], value: object) -> None:
    path = tmp_path / "spindle.lock"
    path.write_text(json.dumps(change(write_example(path), *place, to=value)), encoding="utf-8")

    with pytest.raises(InvalidLockError) as caught:
        LockFile.read(path)

    assert caught.value.path == str(path)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"{}", b'{"spindle_lock": NaN}', b"\xff", b'{"servers": {}, "servers": {}}', b"[" * 9999]
)
def test_another_file_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "spindle.lock"
    path.write_bytes(data)

    with pytest.raises(InvalidLockError):
        LockFile.read(path)


def test_a_missing_file_is_none_and_a_folder_is_refused(tmp_path: Path) -> None:
    assert LockFile.read(tmp_path / "none") is None
    with pytest.raises(InvalidLockError):
        LockFile.read(tmp_path)


def test_a_file_is_replaced_at_once_and_keeps_its_mode(tmp_path: Path) -> None:
    path, link = tmp_path / "real.lock", tmp_path / "spindle.lock"
    path.write_text("old", encoding="utf-8")
    path.chmod(0o600)
    link.symlink_to(path)

    LockFile().write(link)

    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600
    assert LockFile.read(path) == LockFile()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["real.lock", "spindle.lock"]


def test_a_folder_that_cannot_be_written_is_an_error_of_the_lock(tmp_path: Path) -> None:
    with pytest.raises(InvalidLockError):
        LockFile().write(tmp_path / "missing" / "spindle.lock")
