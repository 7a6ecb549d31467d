"""What is found in the folded text is changed at the right place of the text itself."""

import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from spindle.trust.sanitise import add_break_after, add_break_before, rewrite

# Characters that fold to one, to several, to none other, and to several with the sought one in their middle.
TEXTS = st.text(alphabet="<>ax\uff1c\ufe64\u33b3\ufb06\ufdfa\u2474\u2048\u226e🙂\u0338é")


@given(TEXTS)
def test_every_place_is_found_whatever_stands_before_it(text: str) -> None:
    changed = rewrite(text, re.compile("(<)"), lambda _: "!")

    expected = "".join("!" if "<" in unicodedata.normalize("NFKC", each) else each for each in text)
    assert changed == expected


def test_a_character_that_folds_to_several_is_changed_as_a_whole_and_once() -> None:
    assert rewrite("\u2474 1 \u2474", re.compile("(1)"), lambda found: f"[{found}]") == "[\u2474] [1] [\u2474]"
    assert rewrite("\u2048!", re.compile("([?!])"), add_break_before) == "※\u2048※!"


def test_a_text_in_which_nothing_is_found_is_given_back_as_it_is() -> None:
    text = "\uff41\u33b3"

    assert rewrite(text, re.compile("(<)"), add_break_after) is text
