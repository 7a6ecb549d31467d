"""`spindle doctor`: what this machine can do, and how to get the rest."""

import dataclasses

import anyio

from spindle.cli.doctor_checks import Check, config_checks, machine_checks
from spindle.cli.doctor_extras import extra_checks
from spindle.cli.doctor_servers import server_checks
from spindle.cli.exits import FAILED, OK
from spindle.cli.options import NOWHERE, Json, Where
from spindle.cli.output import Output, working
from spindle.cli.terminal_text import visible
from spindle.errors import InvalidConfigError

_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "red")}


def doctor(*, json: Json = False, where: Where = NOWHERE) -> int:
    """Check this machine, the configuration and its servers; exit code 1 when something does not work."""
    with working("looking round …") as progress:
        checks = list(machine_checks())
        try:
            config = where.load()
        except InvalidConfigError as error:
            checks += [Check("configuration", "config", "failed", problem, "correct it") for problem in error.problems]
        else:
            checks += config_checks(config)
            if config.servers:
                progress.say(f"starting {', '.join(config.servers)} …")
                checks += anyio.run(server_checks, config)
        checks += extra_checks()
    is_fine = not any(check.status == "failed" for check in checks)
    out = Output()
    if json:
        out.json({"ok": is_fine, "checks": [dataclasses.asdict(check) for check in checks]})
    else:
        _print(out, checks)
    return OK if is_fine else FAILED


def _print(out: Output, checks: list[Check]) -> None:
    area = ""
    for check in checks:
        if check.area != area:
            if area:
                out.line()
            area = check.area
            out.line(out.styled(area, "bold"))
        mark, colour = _MARKS[check.status]
        out.line(f"  {out.styled(mark, colour)} {visible(f'{check.name}: {check.detail}')}")
        if check.fix:
            out.line(f"    {out.styled(check.fix, 'cyan')}")
