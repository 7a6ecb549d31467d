"""The head and the tail of a long text, with a word about the middle."""

from spindle.kit.terminal_output.screen import plain_lines

MAX_CHARS = 8192
HEAD_LINES = 40
TAIL_LINES = 20


def excerpt(text: str, *, failed: bool = False) -> str:
    """`text`, or its first 40 and last 20 lines when it is long; a failed command keeps more of its end."""
    if len(text) <= MAX_CHARS:
        return text
    head_lines, tail_lines = (TAIL_LINES, HEAD_LINES) if failed else (HEAD_LINES, TAIL_LINES)
    lines = plain_lines(text)
    if len(lines) <= head_lines + tail_lines:
        return _shorter("\n".join(_cut_lines(lines, failed=failed)), text)
    head, middle, tail = lines[:head_lines], lines[head_lines:-tail_lines], lines[-tail_lines:]
    kept = _cut_lines([*head, *tail], failed=failed)
    left_out = sum(map(len, middle)) + len(middle)
    marker = (
        f"... [left out: lines {head_lines + 1}-{head_lines + len(middle)} of {len(lines)}, {left_out} characters] ..."
    )
    return _shorter("\n".join([*kept[:head_lines], marker, *kept[head_lines:]]), text)


def _cut_lines(lines: list[str], *, failed: bool) -> list[str]:
    """The lines, with the longest of them cut until all fit into `MAX_CHARS`."""
    if sum(map(len, lines)) + len(lines) <= MAX_CHARS:
        return lines
    cap = _fair_cap([len(line) for line in lines], MAX_CHARS - len(lines))
    return [_cut(line, cap, failed=failed) for line in lines]


def _fair_cap(lengths: list[int], room: int) -> int:
    """The length at which lines are cut, so that short lines leave their room to long ones."""
    left = len(lengths)
    for length in sorted(lengths):
        if length * left > room:
            return room // left
        room, left = room - length, left - 1
    return max(lengths, default=0)


def _cut(line: str, cap: int, *, failed: bool) -> str:
    if len(line) <= cap:
        return line
    tail = cap * 2 // 3 if failed else cap // 3
    head = cap - tail
    marker = f" ... [left out: {len(line) - cap} characters] ... "
    return _shorter(f"{line[:head]}{marker}{line[len(line) - tail :]}", line)


def _shorter(text: str, original: str) -> str:
    return text if len(text) < len(original) else original
