"""`spindle diff`: show what servers changed since they were locked."""

from typing import Annotated

from cyclopts import Parameter

from spindle.cli.completers import server_names
from spindle.cli.lock_review import (
    LockPath,
    LoginUser,
    Once,
    find_lock_path,
    print_review,
    review_servers,
    review_to_json,
)
from spindle.cli.main import OK
from spindle.cli.options import DEFAULT_CONFIG_OPTIONS, ConfigOptions, Json
from spindle.cli.output import Output


def diff(
    servers: Annotated[
        tuple[str, ...], Parameter(help="Only these servers.", completer=server_names, negative="")
    ] = (),
    /,
    *,
    lock: LockPath = None,
    once: Once = False,
    user: LoginUser = None,
    json: Json = False,
    where: ConfigOptions = DEFAULT_CONFIG_OPTIONS,
) -> int:
    """Show what the servers changed since they were locked, word by word.

    Removed words are in [-brackets-], added ones in {+braces+}. Hidden characters are written as numbers, such as
    <U+200B>, and letters that imitate Latin ones are followed by theirs.
    """
    config = where.load_for_tools()
    review = review_servers(config, servers, find_lock_path(config, lock), once=once, user=user)
    out = Output()
    if json:
        out.json({"path": str(review.path), "servers": [review_to_json(each) for each in review.servers]})
        return OK
    for each in review.servers:
        print_review(out, each)
    if not review.servers:
        out.line("no MCP servers are configured")
    elif any(each.status == "changed" for each in review.servers):
        out.line(("`spindle lock` accepts changes after asking; `spindle lock --accept NAME` accepts one.", "dim"))
    return OK
