import re

from spindle.kit.reducers.lines import NoiseFilter, drop_noise, find_matching

DOTS = NoiseFilter(lambda lines: find_matching(lines, re.compile(r"\.+$")), "dots")


def test_omitted_parts_are_counted() -> None:
    assert (
        drop_noise("." * 40 + "\n" + "." * 40 + "\n\nend\n", DOTS, failed=False) == "end\n[left out: 2 lines of dots]"
    )
    assert drop_noise("." * 40 + "\nend\n", DOTS, failed=False) == "end\n[left out: 1 line of dots]"


def test_leaving_out_too_little_leaves_everything() -> None:
    for text in (".\nend", "end", "", "a\n\nb"):
        assert drop_noise(text, DOTS, failed=False) == text


def test_output_of_another_program_is_not_touched() -> None:
    assert drop_noise("text", NoiseFilter(lambda lines: None, "dots"), failed=False) is None


def test_a_failed_install_keeps_its_last_lines_whatever_they_are() -> None:
    install = NoiseFilter(DOTS.find, "dots", re.compile("error"))
    text = "\n".join(["." * 9] * 100)

    assert drop_noise(text, install, failed=True) == "\n".join(["." * 9] * 20 + ["[left out: 80 lines of dots]"])
    assert drop_noise(text, DOTS, failed=True) == "[left out: 100 lines of dots]"
