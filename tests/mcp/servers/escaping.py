"""A hostile server in plain JSON lines: its one tool tries to reach what it must not, and returns what it got.

It imports next to nothing, so that it starts in a moment and runs in any sandbox.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any


def read(path: str) -> str:
    return Path(path).read_bytes()[:2000].decode("utf-8", "replace")


def write(path: str) -> str:
    Path(path).write_text("escaped", encoding="utf-8")
    return "written"


def listing(path: str) -> str:
    return json.dumps(sorted(os.listdir(path)))  # noqa: PTH208 - a text


def link(old: str, new: str) -> str:
    Path(new).symlink_to(old)
    return "linked"


def hard_link(old: str, new: str) -> str:
    Path(new).hardlink_to(old)
    return "linked"


def rename(old: str, new: str) -> str:
    Path(old).rename(new)
    return "renamed"


def connect(port: int) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connected:
        return connected.recv(100).decode()


def connect_unix(path: str) -> str:
    with socket.socket(socket.AF_UNIX) as connected:
        connected.connect(path.replace("@", "\0", 1))
        return connected.recv(100).decode()


def loop_back() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()) as mine:
        listening.accept()[0].sendall(b"looped")
        return mine.recv(100).decode()


def send_signal(pid: int) -> str:
    os.kill(pid, 0)
    return "signalled"


def environments() -> str:
    """Return the environment of every process that can be read, but for its own and its parent's."""
    found: list[str] = []
    for place in Path("/proc").glob("[0-9]*/environ"):
        if int(place.parent.name) not in {os.getpid(), os.getppid()}:
            try:
                found.append(place.read_bytes().decode("utf-8", "replace"))
            except OSError:
                continue
    return json.dumps([each for each in found if each])


def descriptors() -> str:
    return json.dumps(sorted(os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")[:-1]))  # noqa: PTH115, PTH208 - texts


def multiply(at_most: int) -> str:
    """Fork until it fails, at most so often; the children sleep."""
    made = 0
    for _ in range(at_most):
        try:
            child = os.fork()
        except OSError:
            break
        if child == 0:
            signal.pause()
        made += 1
    return str(made)


def detach() -> str:
    """Start a process in its own session that ignores signals and does not go away with this one."""
    words = [sys.executable, "-I", "-S", "-c", "import signal, time; signal.signal(15, 1); time.sleep(3600)", *MARK]
    with open(os.devnull, "r+b") as null:  # noqa: PTH123
        subprocess.Popen(words, stdin=null, stdout=null, stderr=null, start_new_session=True)
    return "detached"


def environment() -> str:
    return json.dumps(dict(os.environ))


MARK = sys.argv[1:2]
MISDEEDS = {
    each.__name__: each
    for each in (
        *(read, write, listing, link, hard_link, rename, connect, connect_unix, loop_back, send_signal),
        *(environments, descriptors, multiply, detach, environment),
    )
}
TOOL = {"name": "try", "inputSchema": {"type": "object"}}


def attempt(arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        said = MISDEEDS[arguments["what"]](*arguments.get("with", ()))
    except OSError as error:
        return {"content": [{"type": "text", "text": f"{type(error).__name__}: {error}"}], "isError": True}
    return {"content": [{"type": "text", "text": said}]}


def serve() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        result: dict[str, Any] | None = None
        match request.get("method"):
            case "initialize":
                info = {"name": "escaping", "version": "1"}
                result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                result = {"tools": [TOOL]}
            case "tools/call":
                result = attempt(request["params"]["arguments"])
            case "ping":
                result = {}
            case _:
                pass
        if "id" in request:
            answer = {"error": {"code": -32601, "message": "no"}} if result is None else {"result": result}
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}) + "\n")
            sys.stdout.flush()


serve()
