"""What a pod makes of the words of a job."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangline.engines.kubernetes.manifests.pod import literal

VARIABLES = {"A": "value of A"}


def expanded(text: str) -> str:
    """What a kubelet makes of a text: two signs are one, a known name in brackets is its value."""

    def one(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else VARIABLES.get(match[1], match[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", one, text)


@pytest.mark.parametrize("text", ["$(A)", "$$(A)", "echo $$ > /tmp/x.$$", "$HOME", "$", "$$$", "cost: 5$", "$(A"])
def test_a_word_means_what_it_says(text: str) -> None:
    assert expanded(literal(text)) == text


@given(st.text(alphabet="$()Ax"))
def test_any_word_means_what_it_says(text: str) -> None:
    assert expanded(literal(text)) == text
