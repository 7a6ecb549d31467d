"""`spindle completion SHELL`: print or install the completion script of a shell."""

from typing import Annotated, Final, Literal

from cyclopts import Parameter
from cyclopts.completion import ShellDetectionError, detect_shell

from spindle.cli.main import OK, build_app
from spindle.cli.output import Output, print_message
from spindle.errors import UsageError

Shell = Literal["bash", "zsh", "fish"]
SHELLS: Final[tuple[Shell, ...]] = ("bash", "zsh", "fish")
ZSH_REGISTRATION = """
(( $+functions[compdef] )) || { autoload -U compinit && compinit }
compdef _cyclopts_spindle spindle
"""
"""Registers the completion when the script is sourced; compinit itself only loads files from `fpath`."""


def completion(
    shell: Annotated[Shell | None, Parameter(help="bash, zsh or fish; the current shell by default.")] = None,
    /,
    *,
    install: Annotated[bool, Parameter(negative="", help="Install the script where the shell looks for it.")] = False,
) -> int:
    """Print or install the completion script of a shell.

    For one session of bash or zsh: source <(spindle completion bash)
    """
    app = build_app()
    chosen = shell or _find_shell()
    if not install:
        Output().text(app.generate_completion(shell=chosen) + (ZSH_REGISTRATION if chosen == "zsh" else ""))
        return OK
    path = app.install_completion(shell=chosen)
    also = "; ~/.zshrc must run compinit after the added line" if chosen == "zsh" else ""
    print_message(f"installed the {chosen} completion in {path}", f"open a new shell to use it{also}")
    return OK


def _find_shell() -> Shell:
    try:
        found = detect_shell()
    except ShellDetectionError as error:
        raise UsageError("cannot detect the shell; name bash, zsh or fish", field="shell") from error
    for shell in SHELLS:
        if shell == found:
            return shell
    raise UsageError(f"no completion for {found}; supported shells: {', '.join(SHELLS)}", field="shell")
