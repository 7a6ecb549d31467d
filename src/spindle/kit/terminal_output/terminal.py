"""Which shortening fits what a command printed."""

from spindle.kit.terminal_output.excerpt import excerpt
from spindle.kit.terminal_output.filtering import without_noise
from spindle.kit.terminal_output.git_status import is_git_status, summarise_git_status
from spindle.kit.terminal_output.installs import install_noise
from spindle.kit.terminal_output.runs import run_noise


def shortened(text: str, command: str, *, failed: bool) -> str:
    """What `command` printed, without what nobody needs; never longer, and the same for the same input."""
    if is_git_status(command):
        return summarise_git_status(text) or excerpt(text, failed=failed)
    for noise_of in (run_noise, install_noise):
        noise = noise_of(command)
        shorter = without_noise(text, noise, failed=failed) if noise else None
        if shorter is not None:
            return shorter
    return excerpt(text, failed=failed)
