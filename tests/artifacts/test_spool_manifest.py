from hypothesis import given
from hypothesis import strategies as st

from spindle.artifacts.readers import build_line_index
from spindle.artifacts.spool import Manifest, to_file_name

any_text = st.text(alphabet=st.characters(exclude_categories=[]))


def manifest(name: str = "id", turn_id: str | None = None, data: bytes = b"a\nb") -> Manifest:
    return Manifest(id=name, turn_id=turn_id, created_at=1.5, version="v1", index=build_line_index(data))


@given(name=any_text, turn_id=st.one_of(st.none(), any_text), blocks=st.integers(0, 3))
def test_a_note_is_read_back_as_it_was(name: str, turn_id: str | None, blocks: int) -> None:
    note = manifest(name, turn_id, b"line\n" * 13_108 * blocks)

    assert Manifest.from_bytes(note.to_bytes()) == note


@given(place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_one_wrong_bit_anywhere_is_noticed(place: int, bit: int) -> None:
    data = bytearray(manifest().to_bytes())
    data[place % len(data)] ^= 1 << bit

    assert Manifest.from_bytes(bytes(data)) is None


def test_a_torn_note_is_noticed_at_every_length() -> None:
    data = manifest().to_bytes()

    assert [n for n in range(len(data)) if Manifest.from_bytes(data[:n]) is not None] == []


@given(first=any_text, second=any_text)
def test_names_are_safe_and_only_equal_for_equal_ids(first: str, second: str) -> None:
    assert (to_file_name(first) == to_file_name(second)) == (first == second)
    assert len(to_file_name(first)) == 64
    assert to_file_name(first).isalnum()


def test_ids_that_differ_only_by_case_have_names_that_differ_by_more() -> None:
    assert to_file_name("Call").lower() != to_file_name("call").lower()
