"""`spindle page`: print a new one-time link to the page of the running server."""

import webbrowser
from typing import Annotated

from cyclopts import Parameter

from spindle.cli.main import FAILED, NOT_FOUND, OK
from spindle.cli.options import DEFAULT_CONFIG_OPTIONS, ConfigOptions, Json
from spindle.cli.output import Output, print_message
from spindle.cli.running_server import find_server
from spindle.cli.server_file import read_record
from spindle.errors import CommandError


def page(
    *,
    open_browser: Annotated[
        bool, Parameter(name="--open", negative="", help="Open the page in the browser of this machine.")
    ] = False,
    json: Json = False,
    where: ConfigOptions = DEFAULT_CONFIG_OPTIONS,
) -> int:
    """Print a link that logs you in to the page of the running server, once and within an hour."""
    config = where.load()
    record = read_record(config)
    if record is None:
        raise CommandError(
            "no server runs with this state",
            exit_code=NOT_FOUND,
            hint=f"start one with `spindle serve`, or choose its folder with --state; this one is {config.state}",
        )
    if not record.page:
        raise CommandError(
            f"the server at {record.address} has no page",
            exit_code=FAILED,
            hint="set page = true under [server]; beside loopback addresses it is off by default",
        )
    server = find_server(config)
    if server is None:
        raise CommandError(
            f"the server at {record.address} (process {record.pid}) cannot be used by this command",
            exit_code=FAILED,
            hint="it must listen on this machine and have the same state key: SPINDLE_STATE_KEY, or the state folder",
        )
    made = server.post("/link", {})
    link = f"{record.address}{made['path']}#{made['code']}"
    out = Output()
    if json:
        out.json({"link": link, "address": record.address, "pid": record.pid, "started": record.started})
    else:
        out.line(link)
    if open_browser and not webbrowser.open(link):
        print_message("no browser could be opened; open the link yourself")
    return OK
