import pytest

from spindle.artifacts import BytesReader
from spindle.artifacts.browsing import describe_content, open_content
from spindle.errors import ArtifactQueryError

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (640).to_bytes(4) + (480).to_bytes(4) + b"\x08\x06\0\0\0"
JPEG = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x11\x08" + (90).to_bytes(2) + (120).to_bytes(2) + bytes(20)


@pytest.mark.parametrize(
    ("data", "name", "view"),
    [
        (b"plain\ntext\n", "", "lines"),
        (b"", "", "lines"),
        (b'{"a": 1}', "", "json"),
        (b"  [1, 2]", "", "json"),
        (b'{"a": 1}\n{"a": 2}\n', "x.jsonl", "json"),
        (b"a,b\n1,2\n3,4\n", "", "table"),
        (b"a\tb\n1\t2\n3\t4\n", "", "table"),
        (b"# Title\n\nSome **text**\n", "", "markdown"),
        (b"text", "notes.md", "markdown"),
        (b"PAR1\0\0", "", "table"),
        (bytes(range(256)), "", "hex"),
        (PNG, "", "hex"),
        ("naïve café\n".encode() * 10, "", "lines"),
        (b"[2026-11-18] started\n[2026-11-18] done\n", "", "json"),
    ],
)
def test_the_best_view_fits_the_content(data: bytes, name: str, view: str) -> None:
    assert describe_content(BytesReader(data), name).best_view == view


def test_the_size_of_an_image_is_read_from_its_header() -> None:
    png, jpeg = describe_content(BytesReader(PNG)), describe_content(BytesReader(JPEG))
    assert (png.media_type, png.width, png.height, png.is_binary) == ("image/png", 640, 480, True)
    assert (jpeg.width, jpeg.height) == (120, 90)
    assert describe_content(BytesReader(b"\xff\xd8" + b"\xff" * 50)).width is None


@pytest.mark.anyio
async def test_a_reader_without_ranges_is_copied_if_it_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    class WholeReader:
        async def byte_length(self) -> int:
            return 3

        async def read_all(self) -> bytes:
            return b"a\nb"

    content = await open_content(WholeReader())  # type: ignore[arg-type]  # what is used of one
    assert content.size == (3, 2)
    monkeypatch.setattr("spindle.artifacts.browsing.content.MAX_COPIED_BYTES", 2)
    with pytest.raises(ArtifactQueryError):
        await open_content(WholeReader())  # type: ignore[arg-type]
