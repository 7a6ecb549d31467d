"""What a session has read is remembered, for that session alone."""

from spindle.capabilities.files.paths import NOTHING, FileVersion, ReadTracker

FILE = ("s1", ("a.txt",))
OLD, NEW = FileVersion.of(b"old"), FileVersion.of(b"new")


def test_a_file_never_read_is_unknown_also_after_it_was_written() -> None:
    memory = ReadTracker()
    memory.record_write(FILE, NEW)

    assert memory.get_last_version(FILE) is None


def test_what_was_read_is_known_in_its_session_only() -> None:
    memory = ReadTracker()
    memory.record_read(FILE, OLD, began=memory.begin())

    assert memory.get_last_version(FILE) == OLD
    assert memory.get_last_version(("s2", ("a.txt",))) is None


def test_a_write_replaces_what_was_read() -> None:
    memory = ReadTracker()
    memory.record_read(FILE, NOTHING, began=memory.begin())
    memory.record_write(FILE, NEW)

    assert memory.get_last_version(FILE) == NEW


def test_a_reading_that_began_before_the_sessions_own_write_does_not_undo_it() -> None:
    memory = ReadTracker()
    memory.record_read(FILE, OLD, began=memory.begin())
    began = memory.begin()
    memory.record_write(FILE, NEW)
    memory.record_read(FILE, OLD, began=began)

    assert memory.get_last_version(FILE) == NEW


def test_a_reading_that_began_after_it_does() -> None:
    memory = ReadTracker()
    memory.record_read(FILE, OLD, began=memory.begin())
    memory.record_write(FILE, NEW)
    memory.record_read(FILE, OLD, began=memory.begin())

    assert memory.get_last_version(FILE) == OLD


def test_the_memory_is_bounded_and_forgets_what_was_used_longest_ago() -> None:
    memory = ReadTracker(max_files=2)
    for session in ("s1", "s2", "s1", "s3"):
        memory.record_read((session, ("a.txt",)), OLD, began=memory.begin())

    assert [memory.get_last_version((session, ("a.txt",))) for session in ("s1", "s2", "s3")] == [OLD, None, OLD]


def test_contents_of_one_size_are_told_apart() -> None:
    assert FileVersion.of(b"abc") == FileVersion.of(b"abc")
    assert FileVersion.of(b"abc") != FileVersion.of(b"abd")
    assert FileVersion.of(b"") != NOTHING
