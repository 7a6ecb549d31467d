"""The two MCP servers in the pictures of docs/gateway.md: `picture_servers.py time`, or `notes`.

They stand in for mcp-server-time and server-filesystem, so that the pictures need no network.
"""

import sys
from datetime import datetime
from zoneinfo import ZoneInfo

from mcp.server.mcpserver import MCPServer

TIME = MCPServer("time", log_level="ERROR")
NOTES = MCPServer("notes", log_level="ERROR")
NOTES_TOOLS = {
    "read_text_file": "Read the complete contents of a file from the file system as text.",
    "write_file": "Create a new file or completely overwrite an existing file with new content.",
    "edit_file": "Make line-based edits to a text file.",
    "list_directory": "Get a detailed listing of all files and directories in a specified path.",
    "search_files": "Recursively search for files and directories matching a pattern.",
}


@TIME.tool(structured_output=False)
def get_current_time(timezone: str) -> str:
    """Get current time in a specific timezone"""
    now = datetime.now(ZoneInfo(timezone))
    return f'{{\n  "timezone": "{timezone}",\n  "datetime": "{now.isoformat(timespec="seconds")}"\n}}'


@TIME.tool(structured_output=False)
def convert_time(source_timezone: str, time: str, target_timezone: str) -> str:
    """Convert time between timezones"""
    return f"{time} in {source_timezone} as {target_timezone}"


def read_path(path: str) -> str:
    """Return the path; in the pictures the tools of `notes` are listed and not called."""
    return path


for name, description in NOTES_TOOLS.items():
    NOTES.tool(name=name, description=description, structured_output=False)(read_path)

if __name__ == "__main__":
    {"time": TIME, "notes": NOTES}[sys.argv[1]].run("stdio")
