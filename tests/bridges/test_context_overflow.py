"""A prompt that is too long is its own error for every callback, and the budget of results follows the window."""

import pickle
from typing import Any

import anyio
import pytest

from spindle import Budget, DispatchRunner, Executor, ToolRegistry, TurnContext, TurnReport, TurnRunner, tool
from spindle.bridges.context_overflow import find_context_overflow
from spindle.errors import ContextOverflowError, ModelUnavailableError, UsageError
from tests.bridges.every_provider import ANTHROPIC, BEDROCK, CHAT, GEMINI, RESPONSES, SCENES, Asked, Scene
from tests.bridges.wire.server import Answer, WireServer, json_answer, sse_answer

pytestmark = [
    pytest.mark.anyio,
    # The SDKs leave generators of their own unfinished, which trio remarks on.
    pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning"),
]

every = pytest.mark.parametrize("scene", SCENES, ids=[scene.name for scene in SCENES])


def openai_error(message: str, **facts: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": "messages", "code": None, **facts}}


def claude_error(message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}


def aws_error(message: str) -> dict[str, Any]:
    return {"message": message}


def google_error(message: str) -> dict[str, Any]:
    return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}


LM_STUDIO = (
    "Trying to keep the first 14538 tokens when context the overflows. However, the model is loaded with context "
    "length of only 2048 tokens, which is not enough. Try to load the model with a larger context length, or provide a "
    "shorter input"
)
OUTPUT_FILLS_THE_WINDOW = (
    "This endpoint's maximum context length is 131072 tokens. However, you requested about 138956 tokens (7884 of text "
    "input, 131072 in the output)."
)
LLAMA = {
    "error": {
        "code": 400,
        "message": "request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 9000,
        "n_ctx": 8192,
    }
}
OVERFLOWS: list[tuple[str, Scene, Any, int | None, int | None]] = [
    (
        "openai",
        CHAT,
        openai_error(
            "This model's maximum context length is 4097 tokens. However, you requested 4120 tokens (3120 in the "
            "messages, 1000 in the completion). Please reduce the length of the messages or completion.",
            code="context_length_exceeded",
        ),
        3120,
        4097,
    ),
    (
        "openai-messages",
        CHAT,
        openai_error(
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 204308 tokens. "
            "Please reduce the length of the messages.",
            code="context_length_exceeded",
        ),
        204308,
        128000,
    ),
    (
        "openai-limit",
        CHAT,
        openai_error(
            "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 289650 tokens.",
            code="context_length_exceeded",
        ),
        289650,
        272000,
    ),
    ("openai-code-alone", CHAT, openai_error("No.", code="context_length_exceeded"), None, None),
    (
        "openai-responses",
        RESPONSES,
        openai_error("Your input exceeds the context window of this model.", code="context_length_exceeded"),
        None,
        None,
    ),
    ("llama.cpp", CHAT, LLAMA, 9000, 8192),
    ("llama.cpp-responses", RESPONSES, LLAMA, 9000, 8192),
    (
        "vllm",
        CHAT,
        {
            "object": "error",
            "message": "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context "
            "length is 4096 tokens and your request has 2104 input tokens (2000 > 4096 - 2104). None",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
        2104,
        4096,
    ),
    (
        "vllm-multimodal",
        CHAT,
        openai_error("The prompt (total length 25938) is too long to fit into the model (context length 4096)."),
        25938,
        4096,
    ),
    (
        "vllm-v1",
        CHAT,
        openai_error("The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
        5000,
        4096,
    ),
    (
        "openrouter",
        CHAT,
        {
            "error": {
                "message": "This endpoint's maximum context length is 32768 tokens. However, you requested about 42832 "
                "tokens (42832 of text input). Please reduce the length of either one.",
                "code": 400,
            }
        },
        42832,
        32768,
    ),
    ("ollama", CHAT, {"error": "the input length exceeds the context length"}, None, None),
    ("lm-studio", CHAT, {"error": LM_STUDIO}, 14538, 2048),
    ("lm-studio-keep", CHAT, {"error": "Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)"}, 15028, 7424),
    (
        "anthropic",
        ANTHROPIC,
        claude_error("prompt is too long: 208310 tokens > 200000 maximum"),
        208310,
        200000,
    ),
    (
        "anthropic-output",
        ANTHROPIC,
        claude_error(
            "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length or "
            "`max_tokens` and try again"
        ),
        178959,
        200000,
    ),
    (
        "gemini",
        GEMINI,
        google_error("The input token count (1200293) exceeds the maximum number of tokens allowed (1048576)."),
        1200293,
        1048576,
    ),
    ("bedrock", BEDROCK, {"message": "Input is too long for requested model."}, None, None),
    (
        "bedrock-claude",
        BEDROCK,
        {"message": "The model returned the following errors: prompt is too long: 903884 tokens > 200000 maximum"},
        903884,
        200000,
    ),
    (
        "bedrock-titan",
        BEDROCK,
        {"message": "400 Bad Request: Too many input tokens. Max input tokens: 8192, request input token count: 9279"},
        9279,
        8192,
    ),
]
recorded = pytest.mark.parametrize(
    ("scene", "body", "prompt", "window"), [each[1:] for each in OVERFLOWS], ids=[each[0] for each in OVERFLOWS]
)


def refused(scene: Scene, body: Any, status: int = 400) -> Answer:
    headers = {"x-amzn-errortype": "ValidationException"} if scene is BEDROCK else {}
    return json_answer(body, status=status, headers=headers)


def find_error(report: TurnReport, kind: type[Any]) -> Any:
    """Return the error of a turn, which may be the cause of another one."""
    error: BaseException | None = report.error
    while error is not None and not isinstance(error, kind):
        error = error.__cause__
    assert error is not None, report.error
    return error


async def turn(scene: Scene, *script: Answer, tools: Any = (), **options: Any) -> tuple[TurnReport, int]:
    async with WireServer.playing(*script) as server, scene.asking(server.url, **options) as callback:
        with anyio.fail_after(30):
            report = await TurnRunner(executor_callback=callback, tools=tools).run(messages=["Go."])
        return report, len(server.requests)


@pytest.mark.slow
@recorded
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_an_overflow_is_its_own_error_with_the_sizes_the_server_reports(
    scene: Scene, body: Any, prompt: int | None, window: int | None, stream: bool
) -> None:
    report, requests = await turn(scene, refused(scene, body), stream=stream)

    error = find_error(report, ContextOverflowError)
    assert (error.prompt_tokens, error.context_tokens, error.http_status) == (prompt, window, 400)
    assert (report.status, requests) == ("error", 1)
    assert not isinstance(error, ModelUnavailableError)


@pytest.mark.parametrize(
    ("scene", "message"),
    [
        (CHAT, "max_tokens is too large: 100000. This model supports at most 16384 completion tokens."),
        (CHAT, OUTPUT_FILLS_THE_WINDOW),
        (CHAT, "Invalid value for 'temperature'"),
        (RESPONSES, "Unknown parameter: 'input[0].author'."),
        (ANTHROPIC, "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens"),
        (GEMINI, "Unable to submit request because it has a maxOutputTokens value of 90000"),
        (BEDROCK, "The maximum tokens you requested exceeds the model limit of 4096."),
    ],
)
async def test_a_bad_parameter_is_not_an_overflow(scene: Scene, message: str) -> None:
    bodies = {ANTHROPIC.name: claude_error, GEMINI.name: google_error, BEDROCK.name: aws_error}
    report, requests = await turn(scene, refused(scene, bodies.get(scene.name, openai_error)(message)))

    assert find_error(report, ModelUnavailableError).http_status == 400
    assert requests == 1


@pytest.mark.parametrize("body", [{"error": {"message": LM_STUDIO}}, {"error": LM_STUDIO}], ids=["object", "text"])
async def test_an_overflow_inside_a_stream_is_recognised_too(body: Any) -> None:
    answer = Answer(
        headers={"content-type": "text/event-stream"}, chunks=(b"event: error\n", *sse_answer([body]).chunks)
    )
    report, requests = await turn(CHAT, answer)

    error = find_error(report, ContextOverflowError)
    assert (error.prompt_tokens, error.context_tokens, requests) == (14538, 2048, 1)


async def test_a_response_that_failed_for_its_size_is_recognised_too() -> None:
    failed = {
        "type": "response.failed",
        "response": {"status": "failed", "error": {"code": "context_length_exceeded", "message": "No."}},
    }
    report, requests = await turn(RESPONSES, sse_answer([failed], is_named=True))

    assert find_error(report, ContextOverflowError).prompt_tokens is None
    assert requests == 1


async def test_a_window_given_by_the_caller_is_reported() -> None:
    report, _ = await turn(CHAT, refused(CHAT, openai_error("x", code="context_length_exceeded")), context_tokens=4096)

    error = find_error(report, ContextOverflowError)
    assert (error.prompt_tokens, error.context_tokens) == (None, 4096)


@pytest.mark.parametrize("status", [401, 429])
def test_another_refusal_that_mentions_the_window_is_not_an_overflow(status: int) -> None:
    assert find_context_overflow("maximum context length is 5 tokens", status=status) is None


@tool
async def read() -> str:
    """Read a lot."""
    return "x" * 100_000


async def shown(scene: Scene, settings: dict[str, Any], **options: Any) -> tuple[int, list[str]]:
    """Return how much of a long result a turn records, and its warnings."""
    warnings: list[str] = []
    script = [scene.streams(Asked("c1", "read")), scene.streams(text="done")]
    async with WireServer.playing(*script) as server, scene.asking(server.url, **options) as callback:
        with anyio.fail_after(30):
            runner = TurnRunner(executor_callback=callback, tools=[read], **settings)
            runner.on("warning", lambda warned: warnings.append(warned.source))
            report = await runner.run(messages=["Go."])
            assert report.status == "ok"
        sent = server.requests[1].body
    return sent.count(b"xx"), warnings


@pytest.mark.slow
@every
async def test_the_default_budget_is_a_quarter_of_the_window(scene: Scene) -> None:
    plain, _ = await shown(scene, {})
    small, warnings = await shown(scene, {}, context_tokens=4096)
    large, _ = await shown(scene, {}, context_tokens=1_000_000)

    assert plain == large
    assert plain // 2 > 19_000
    assert small <= 4096 * 3 // 4 < small * 2 + 600
    assert warnings == []


@pytest.mark.parametrize(
    ("budget", "warned"),
    [
        (Budget(12_000), []),
        (Budget(13_000), ["budget"]),
        (Budget(tokens=4096), []),
        (Budget(tokens=4097), ["budget"]),
    ],
)
async def test_a_budget_that_cannot_fit_the_window_is_kept_and_warned_about(budget: Budget, warned: list[str]) -> None:
    pairs, warnings = await shown(CHAT, {"budget": budget}, context_tokens=4096)

    assert warnings == warned
    assert pairs * 2 > 5_000


async def test_an_executor_without_a_budget_of_its_own_follows_the_window() -> None:
    executor = Executor(ToolRegistry([read]))
    pairs, _ = await shown(CHAT, {"executor": executor}, context_tokens=4096)

    assert pairs <= 4096 * 3 // 4
    assert executor.budget == Budget()


async def test_a_dispatch_follows_the_window_of_its_callback() -> None:
    script = [CHAT.streams(Asked("c1", "read")), CHAT.streams(text="done")]
    async with WireServer.playing(*script) as server, CHAT.asking(server.url, context_tokens=4096) as callback:
        turn_context = TurnContext(messages=["Go."], tools=[read])
        with anyio.fail_after(30):
            await DispatchRunner.dispatch(source=turn_context, executor_callback=callback)
        assert server.requests[1].body.count(b"xx") <= 4096 * 3 // 4


@every
@pytest.mark.parametrize("tokens", [0, -1, 1.5, True, "8k"])
async def test_a_window_that_is_not_a_size_is_refused(scene: Scene, tokens: Any) -> None:
    async with scene.client("http://127.0.0.1:9") as client:
        with pytest.raises(UsageError) as raised:
            scene.callback(model="m", client=client, context_tokens=tokens)

    assert raised.value.field == "context_tokens"


def test_the_error_has_its_facts() -> None:
    error = ContextOverflowError(prompt_tokens=9000, context_tokens=8192)

    assert (error.prompt_tokens, error.context_tokens, error.code) == (9000, 8192, "E_CONTEXT_OVERFLOW")
    assert "9000" in str(error)


def test_the_error_takes_its_sizes_in_the_published_order() -> None:
    error = ContextOverflowError(9000, 8192)
    again = pickle.loads(pickle.dumps(error))

    assert (error.prompt_tokens, error.context_tokens) == (again.prompt_tokens, again.context_tokens) == (9000, 8192)
    assert str(error) == str(again) == str(ContextOverflowError(prompt_tokens=9000, context_tokens=8192))


def test_a_figure_of_thousands_of_digits_is_not_a_size() -> None:
    message = f"maximum context length is {'9' * 5000} tokens, but your messages resulted in 9000 tokens"

    found = find_context_overflow(message, status=400)

    assert found is not None
    assert (found.prompt_tokens, found.context_tokens) == (9000, None)
