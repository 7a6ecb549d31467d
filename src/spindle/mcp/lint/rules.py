"""The rules of the linter: ids, severities and what each means. Ids are stable; a rule that is dropped leaves a gap."""

from types import MappingProxyType
from typing import Final

from spindle.mcp.lint.findings import Finding, Rule, Severity
from spindle.mcp.lint.subjects import Subject


def _rule(id: str, severity: Severity, title: str, help: str) -> Rule:
    return Rule(id=id, severity=severity, title=title, help=help)


_RULES: Final = (
    # poison
    _rule(
        "SP101",
        "error",
        "Overrides the model's instructions",
        "A definition describes a tool; one that cancels or replaces instructions is an attack. Do not use the server.",
    ),
    _rule(
        "SP102",
        "error",
        "Conceals something from the user",
        "A tool has no reason to hide what it does from the person it works for. Do not use the server.",
    ),
    _rule(
        "SP103",
        "error",
        "Markup of prompts",
        "Tags such as <IMPORTANT> and tokens of chat templates pose as the system or the user. Remove them.",
    ),
    _rule(
        "SP104",
        "warning",
        "Orders about other tools or every request",
        "A definition that demands to be called before all others, or for every message, takes over the conversation. "
        "Some honest servers need a first call; check what it is for.",
    ),
    _rule(
        "SP105",
        "error",
        "Reads files or secrets and passes them on",
        "The model is to read a private file or a secret and to pass it as an argument. Do not use the server.",
    ),
    _rule(
        "SP106",
        "error",
        "Sends data away",
        "The conversation, results or secrets are to be sent to an address or into a parameter. Do not use the server.",
    ),
    _rule(
        "SP107",
        "error",
        "Changes what other tools do",
        "A definition that rewrites the arguments or results of other tools attacks them. Do not use the server.",
    ),
    _rule(
        "SP108",
        "error",
        "Hidden characters",
        "Tags, direction overrides, controls and long runs of invisible characters hide text that a model reads. "
        "Names and values of the contract must not have any: such a tool is left out.",
    ),
    _rule(
        "SP109",
        "warning",
        "Invisible characters",
        "Zero-width spaces, soft hyphens and line separators are often pasted by accident. Remove them.",
    ),
    _rule(
        "SP110",
        "error",
        "Text out of sight",
        "Comments of HTML or Markdown, invisible styles and long blanks keep text from people, not from models.",
    ),
    _rule(
        "SP111",
        "error",
        "Name in look-alike letters",
        "The name looks like ASCII, but has letters of another script, so that it passes for another tool.",
    ),
    _rule(
        "SP112",
        "warning",
        "Words in mixed scripts",
        "A word mixes Latin letters with look-alikes of another script, which evades searches for words.",
    ),
    _rule(
        "SP113",
        "error",
        "Looks like a tool of another server",
        "Two names look the same. Models and people will confuse them: rename one, or drop a server.",
    ),
    _rule(
        "SP114",
        "warning",
        "Nearly the name of another tool",
        "The name differs by form or by one letter from a tool of another server or from a widely used one.",
    ),
    _rule(
        "SP115",
        "note",
        "Same name on two servers",
        "The tools are kept apart by their prefix, but a model may pick the wrong one. Offer one, or filter.",
    ),
    _rule(
        "SP116",
        "warning",
        "Refers to a tool of another server",
        "A definition that names tools it does not own may steer their use. Check why it does.",
    ),
    _rule(
        "SP117",
        "warning",
        "Encoded passage",
        "A readable text in base64 or hexadecimal has no use in a description, except to escape notice.",
    ),
    _rule(
        "SP118",
        "warning",
        "Mentions a private file",
        "Keys, password stores and configurations of clients are named. Check that the tool is made for them.",
    ),
    _rule(
        "SP119",
        "warning",
        "Takes approval for granted",
        "The model is not to ask the user, or the user has agreed already. Keep `requires_approval` for such tools.",
    ),
    _rule(
        "SP120",
        "error",
        "Runs code from elsewhere",
        "The model is to download and run code, or to run a command that the tool does not need.",
    ),
    _rule(
        "SP121",
        "error",
        "Too large to check",
        "Nothing useful is that large, and something may hide behind what was read. Do not use the server.",
    ),
    # secrets
    _rule(
        "SP201",
        "warning",
        "Parameter for a credential",
        "A secret in an argument passes through the model, its provider and the logs. Configure it at the server.",
    ),
    _rule(
        "SP202",
        "warning",
        "Parameter for the conversation",
        "The tool asks for the system prompt, the messages or the reasoning, which leak other people's data.",
    ),
    _rule(
        "SP203",
        "error",
        "Literal credential",
        "A credential stands in the definition, and every client and model sees it. Revoke it and remove it.",
    ),
    # quality
    _rule("SP301", "warning", "No description", "A model chooses tools by their descriptions. Write one."),
    _rule("SP302", "note", "Vague description", "Say what the tool does, on what, and what it returns."),
    _rule("SP303", "warning", "Duplicate description", "A model cannot choose between two tools. Say how they differ."),
    _rule("SP304", "note", "Parameters without description", "Say what each parameter means, with its unit or format."),
    _rule("SP305", "warning", "Parameters without type", "Any value is accepted. Give a type, an enum or a reference."),
    _rule(
        "SP306", "note", "Open schema", "The parameter takes any object. List its properties, or say what is needed."
    ),
    _rule("SP307", "note", "Many tools", "Models choose worse among many tools. Filter with a profile or `tools`."),
    _rule(
        "SP308", "note", "Long description", "It is paid for in every request. Keep what helps to choose and to call."
    ),
    _rule("SP309", "warning", "Required parameter is not declared", "Declare it under `properties`, or drop it."),
    _rule("SP310", "warning", "Left out", "The definition is invalid or hides something, so the tool is not offered."),
    # provider limits
    _rule("SP401", "note", "Name is changed for a provider", "Shorten it to 64 letters, digits, `_` and `-` in all."),
    _rule("SP402", "warning", "Cannot be expressed for a provider", "With this provider the tool is an error."),
    _rule(
        "SP403", "note", "Keywords are lost for a provider", "They are still checked, but the model does not see them."
    ),
    _rule(
        "SP404", "warning", "More tools than a provider accepts", "Filter with a profile, or the request is refused."
    ),
    _rule("SP405", "note", "Not possible in strict mode", "The provider does not guarantee arguments for this schema."),
    _rule(
        "SP406",
        "note",
        "Parameter names are changed for a provider",
        "They are mapped back; shorter names are clearer.",
    ),
    # price
    _rule("SP501", "warning", "Expensive definition", "It is sent with every request. Shorten it, or hide the tool."),
    _rule("SP502", "warning", "Expensive server", "Offer fewer of its tools: `tools` of the server, or a profile."),
    _rule(
        "SP503", "warning", "Expensive list of tools", "Filter with a profile: all definitions are in every request."
    ),
    # information flow
    _rule(
        "SP601", "note", "Arguments without a role", "They are judged by the strictest one. Declare roles in `[flow]`."
    ),
    _rule(
        "SP602",
        "warning",
        "Source that outsiders can write to is trusted",
        "Its label hides their text from the flow policy. Declare a third-party `output`.",
    ),
)

RULES: Final = MappingProxyType({rule.id: rule for rule in _RULES})
"""All rules by id: SP1xx poison, SP2xx secrets, SP3xx quality, SP4xx provider limits, SP5xx price, SP6xx flow."""


def report(
    rule: str, subject: Subject | None, message: str, *, place: str = "", quote: str = "", server: str | None = None
) -> Finding:
    """Build a finding with the severity of its rule; without a subject it is about a server, or about all tools."""
    return Finding(
        rule=rule,
        severity=RULES[rule].severity,
        message=message,
        kind="registry" if subject is None else subject.kind,
        server=server if subject is None else subject.server,
        name="" if subject is None else subject.name,
        place=place,
        quote=quote,
    )
