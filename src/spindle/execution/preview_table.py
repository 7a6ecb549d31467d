"""Tables in little room: the header, the first rows and the last one, as whole lines."""

from spindle.execution.preview_json import BLANK


def preview_table(text: str, cap: int) -> str | None:
    """Show CSV, TSV or JSON Lines longer than `cap` in at most `cap` characters, or `None` where no row fits."""
    header_lines = 0 if text[:64].lstrip(BLANK)[:1] in ("{", "[") else 1
    end = len(text) - text.endswith("\n")
    rows = text.count("\n", 0, end) + 1 - header_lines
    # A quoted cell may span lines, and nobody counts cells here.
    unit = "lines" if header_lines and '"' in text else "rows"
    room = cap - len(_note(rows, rows, unit)) - 1
    last = _last_line(text, end, max(room // 3, 0))
    shown = text[: text.rfind("\n", 0, max(room - len(last), 0)) + 1]
    shown_rows = shown.count("\n") - header_lines
    if shown_rows < 0 or (shown_rows == 0 and not last):
        return None
    note = _note(rows - shown_rows - bool(last), rows, unit)
    return f"{shown}{note}\n{last}" if last else shown + note


def _note(left: int, rows: int, unit: str) -> str:
    return f"[… {left} more of {rows} {unit}]"


def _last_line(text: str, end: int, room: int) -> str:
    """The last line without its end, or nothing when it takes too much room."""
    start = text.rfind("\n", max(end - room - 1, 0), end)
    return text[start + 1 : end] if start >= 0 else ""
