"""Making a text harmless that others wrote: no word of it is a control word of a chat template, none is hidden.

Nothing readable is lost. A token is broken by a `※` behind its first character (`<※|im_start|>`), a turn that is played
(`Human:` after a blank line) gets one in front. Because nothing is taken away, no token can come together from the
pieces of others. Invisible characters go first, and are the work of `invisible.py`.
"""

import re
from typing import Final

from spindle.trust.folding import BREAK, broken_before, broken_behind, rewrite
from spindle.trust.invisible import reveal

# `<|…|>` is the form of most: ChatML, Llama 3, Phi, Harmony, Command R, Granite, Kimi, GLM, fill-in-the-middle, and
# DeepSeek with full-width bars; `<|turn>` and `<turn|>` that of later Gemmas, `<|x|y>` that of DeepSeek's tool calls.
_NAME: Final = rf"[^\s|<>{BREAK}]{{1,64}}"
_BARRED: Final = rf"/?\|{_NAME}(?:\|(?:{_NAME})?)?>|/?[a-z_]{{1,64}}\|>"
# Llama 2 and Mistral, Gemma, Command R, Nemotron, Baichuan, GLM, InternLM, and reasoning.
_ANGLED: Final = (
    r"</?sys>>"
    r"|/?(?:s|bos|eos|pad|unk|sop|eop|eod|eoh|eoa|eom|bom|think|[be]os_token|(?:start|end)_of_(?:turn|image|audio|role)"
    r"|image_soft_token|(?:start|end)_function_(?:call|response|declaration)|(?:unused|reserved_|special_|extra_id_"
    r"|tokens_unused_|reserved_special_token_)[0-9]{1,5}|seed:[a-z_]{1,32})>"
)
_TOOL_TAGS: Final = (
    r"/?(?:[a-z][\w-]{0,15}:)?(?:tool|function)_?(?:calls?|responses?|results?|outputs?|use)(?![\w-])"
    r"|/?(?:tools|toolcall|available_tools|arg_key|arg_value|longcat_[a-z_]{1,32})(?![\w-])"
    r"|/?antml:"
    r"|/?invoke(?:>|\s{1,8}name\s{0,8}=)"
    r"|(?:function|parameter)="
)
_BRACKETED: Final = (
    "INST|TOOL_CALLS|AVAILABLE_TOOLS|TOOL_RESULTS|TOOL_CONTENT|SYSTEM_PROMPT|MODEL_SETTINGS|CALL_ID|THINK"
    "|BEGIN_AUDIO|IMG_BREAK|IMG_END|gMASK|sMASK"
)
_TOKEN: Final = re.compile(
    r"([<\[\]])(?=[|/A-Za-z~]|</?s)(?:"  # most brackets of most texts end here
    rf"(?<=<)(?={_BARRED}|{_ANGLED}|{_TOOL_TAGS})"
    # In small letters and right behind a word it is an index, `results[call_id]`, and no token of any vendor.
    rf"|(?<=\[)(?=(?-i:/?(?:{_BRACKETED}))\])|(?<![\w)\]]\[)(?<=\[)(?=/?(?:{_BRACKETED})\])"
    r"|(?<=\[)(?=e~\[)|(?<=\])(?=~!?b[\[\]])"  # MiniMax
    r")",
    re.IGNORECASE,
)
_NEWLINE: Final = r"(?>\r\n|[\n\r])"
_TURN: Final = re.compile(
    rf"(?:\A|{_NEWLINE}[^\S\n\r]*+{_NEWLINE})[^\S\n\r]*+((?:Human|Assistant)[^\S\n\r]{{0,8}}:)", re.IGNORECASE
)


def sanitise(text: str) -> str:
    """Neutralise chat-template tokens and invisible controls; doing it twice changes nothing more."""
    shown = reveal(text)
    return rewrite(rewrite(shown, _TOKEN, broken_behind), _TURN, broken_before)
