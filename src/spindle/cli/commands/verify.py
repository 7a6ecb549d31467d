"""`spindle verify`: fail if the servers offer something else than the lock file has, for CI."""

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
from spindle.cli.main import FAILED, NOT_FOUND, OK
from spindle.cli.options import DEFAULT_CONFIG_OPTIONS, ConfigOptions, Json
from spindle.cli.output import Output
from spindle.errors import CommandError


def verify(
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
    """Compare the servers with the lock file; exit code 1 on any difference, also if a server cannot be reached.

    Each server is asked twice, as two different clients: one that answers them differently is a difference too.
    """
    config = where.load_for_tools()
    path = find_lock_path(config, lock)
    if not path.exists():
        raise CommandError(f"{path} does not exist", exit_code=NOT_FOUND, hint="`spindle lock` writes it")
    review = review_servers(config, servers, path, once=once, user=user)
    is_same = all(each.status == "same" for each in review.servers)
    out = Output()
    if json:
        found = [review_to_json(each) for each in review.servers]
        out.json({"ok": is_same, "path": str(path), "servers": found})
    else:
        for each in review.servers:
            print_review(out, each)
    return OK if is_same else FAILED
