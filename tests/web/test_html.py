"""Elements: whatever is put into one is text."""

import pytest

from gangline.web.html import document, h, render


def test_text_and_attributes_are_escaped() -> None:
    hostile = "<script>alert('1')</script>\" & 🎉"
    assert render(h.p(hostile, title=hostile)) == (
        '<p title="&lt;script&gt;alert(&#x27;1&#x27;)&lt;/script&gt;&quot; &amp; 🎉">'
        "&lt;script&gt;alert('1')&lt;/script&gt;\" &amp; 🎉</p>"
    )


def test_what_is_none_or_false_is_left_out_and_true_stands_alone() -> None:
    assert render(h.input(hidden=True, value=None, checked=False, data_x=0)) == '<input hidden data-x="0">'
    assert render((h.b(1), None, [" ", h.i("x", cls="y", for_="z")])) == '<b>1</b> <i class="y" for="z">x</i>'
    assert document(h.p()) == "<!doctype html>\n<p></p>\n"


@pytest.mark.parametrize(
    "attributes",
    [{"onclick": "x()"}, {"style": "color: red"}, {"href": "javascript:x()"}, {"src": "data:text/html,x"}],
    ids=lambda each: next(iter(each)),
)
def test_what_the_content_security_policy_forbids_cannot_be_written(attributes: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="attribute"):
        h.a("x", **attributes)
