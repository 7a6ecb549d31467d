"""Telling a plain command from a line that only a shell understands."""

_OPERATORS = "|&;<>()\n`"
_NAME_STARTS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_{("


def shell_syntax(command: str) -> str | None:
    """Give the first piece of a line that a shell would act on, or `None` when its words are all there is to it."""
    quote = ""
    characters = iter(enumerate(command.strip()))
    text = command.strip()
    for at, character in characters:
        if quote == "'":
            quote = "" if character == "'" else quote
        elif character == "\\":
            next(characters, None)
        elif character == quote:
            quote = ""
        elif not quote and character in "'\"":
            quote = character
        elif character == "$" and text[at + 1 : at + 2] and text[at + 1] in _NAME_STARTS:
            return text[at : at + 2]
        elif character == "`" or (not quote and character in _OPERATORS):
            return character
    return None
