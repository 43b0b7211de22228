"""Build a parametrized test from a table of calls that must raise a one-sentence error."""

import inspect

import pytest


def refused(error, *cases):
    """Return a test that every call raises the error, with a message of one line.

    Parameters
    ----------
    error
        Type of the error.
    cases
        Pairs: a pattern that the message matches, and a function. Its arguments without a default
        are fixtures.

    Returns
    -------
    callable
        The test.
    """

    @pytest.mark.parametrize(("words", "call"), cases, ids=[words for words, _ in cases])
    def test(words, call, request):
        fixtures = []
        for parameter in inspect.signature(call).parameters.values():
            if parameter.default is parameter.empty:
                fixtures.append(request.getfixturevalue(parameter.name))
        with pytest.raises(error, match=words) as refusal:
            call(*fixtures)
        assert "\n" not in str(refusal.value)

    return test
