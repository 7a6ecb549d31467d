"""`spindle completion SHELL`: what makes the Tab key work."""

from typing import Annotated, Any, Literal

from cyclopts import Parameter

from spindle.cli.exits import OK
from spindle.cli.output import Output, complain
from spindle.errors import UsageError

Shell = Literal["bash", "zsh", "fish"]
SOURCED_BY_ZSH = """
(( $+functions[compdef] )) || { autoload -U compinit && compinit }
compdef _cyclopts_spindle spindle
"""
"""Without it only a file that compinit finds by its name is heard of, not one that is sourced."""


def completion(
    shell: Annotated[Shell | None, Parameter(help="Which shell; yours, when it is left out.")] = None,
    /,
    *,
    install: Annotated[bool, Parameter(negative="", help="Put it where the shell looks for it.")] = False,
) -> int:
    """Print the completion script of a shell, or install it.

    For one session of bash or zsh: source <(spindle completion bash)
    """
    from spindle.cli.main import build_app  # noqa: PLC0415 - the command registers this module by its name

    app: Any = build_app()
    chosen = shell or _this_shell()
    if not install:
        Output().text(app.generate_completion(shell=chosen) + (SOURCED_BY_ZSH if chosen == "zsh" else ""))
        return OK
    path = app.install_completion(shell=chosen)
    also = "; your ~/.zshrc must run compinit after the line that is new there" if chosen == "zsh" else ""
    complain(f"completion for {chosen} is in {path}", f"open a new shell to use it{also}")
    return OK


def _this_shell() -> Shell:
    from cyclopts.completion import ShellDetectionError, detect_shell  # noqa: PLC0415 - only when nobody said

    try:
        found = detect_shell()
    except ShellDetectionError as error:
        raise UsageError("cannot tell which shell this is; say bash, zsh or fish", field="shell") from error
    if found not in {"bash", "zsh", "fish"}:
        raise UsageError(f"there is no completion for {found}; there is for bash, zsh and fish", field="shell")
    return found  # pyright: ignore[reportReturnType] - one of the three, by now
