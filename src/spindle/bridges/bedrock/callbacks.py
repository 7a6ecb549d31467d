"""An executor callback on boto3, for Amazon Bedrock's Converse."""

from collections.abc import Mapping

from spindle.bridges.bedrock.client import ConverseProvider, open_client
from spindle.bridges.model_callback import ModelCallback, Retries, create_callback
from spindle.bridges.provider import RequestOptions
from spindle.bridges.rendering import MediaSupport
from spindle.json_types import JsonValue
from spindle.tools.filters import ToolFilter


def converse(
    *,
    model: str,
    client: object = None,  # boto3 has no types; `open_client` checks it
    region: str | None = None,
    endpoint_url: str | None = None,
    strict: bool = False,
    tool_choice: str | Mapping[str, JsonValue] | None = None,
    stream: bool = True,
    retries: Retries | None = None,
    filter: ToolFilter | None = None,
    media: MediaSupport | None = None,
    context_tokens: int | None = None,
    extra: Mapping[str, JsonValue] | None = None,
) -> ModelCallback:
    """Return an executor callback that uses a `bedrock-runtime` client of boto3, in worker threads.

    A `client` passed in keeps its own retries: create it with `Config(retries={"total_max_attempts": 1})`.
    `tool_choice` is "auto", "none", "required", the name of a tool, or the API's own object, which is sent on every
    iteration; a name and "required" apply to the first iteration only. `context_tokens` is the size of the model's
    context window; the default budget of results is then at most a quarter of it. `extra` is merged into each request,
    such as `inferenceConfig` or `guardrailConfig`.

    Raises:
        MissingExtraError: boto3 is not installed.
        UsageError: Both a client and its region or endpoint were passed, or it is not a `bedrock-runtime` client.
    """
    provider = ConverseProvider(
        client=open_client(client, region=region, endpoint_url=endpoint_url),
        options=RequestOptions(model=model, strict=strict, tool_choice=tool_choice, extra=extra),
    )
    return create_callback(
        provider, stream=stream, retries=retries, filter=filter, media=media, context_tokens=context_tokens
    )
