"""Tables of what is refused: each call raises its error, in one sentence that holds these words."""

import inspect

import pytest


def refused(error, *cases):
    """Return a test of pairs (words, call), to be given a name; what a call takes without a default are fixtures."""

    @pytest.mark.parametrize(("words", "call"), cases, ids=[words for words, _ in cases])
    def test(words, call, request):
        taken = inspect.signature(call).parameters.values()
        given = [request.getfixturevalue(p.name) for p in taken if p.default is p.empty]
        with pytest.raises(error, match=words) as refusal:
            call(*given)
        assert "\n" not in str(refusal.value)

    return test
