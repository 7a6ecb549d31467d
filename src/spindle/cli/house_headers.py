"""Credentials in the headers of a configured MCP server: by a name of their own, so that they are masked everywhere."""

from collections.abc import Mapping

from spindle.cli.config_schema import ServerEntry, looks_like_secret

_ALWAYS = {"authorization", "proxy-authorization"}


def named_headers(server: str, entry: ServerEntry) -> dict[str, str]:
    """For each header that carries a credential, the name to look it up by; none that is configured has blanks."""
    return {
        header: f"{header} header of {server}"
        for header, value in entry.headers.items()
        if (header.lower() in _ALWAYS or looks_like_secret(header, value)) and header not in entry.header_secrets
    }


def header_values(servers: Mapping[str, ServerEntry]) -> dict[str, str]:
    """What stands behind these names."""
    return {
        name: entry.headers[header]
        for server, entry in servers.items()
        for header, name in named_headers(server, entry).items()
    }
