"""How many tokens each expert gets in a dry run, where the number of experts does not divide them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from swapconf.dryrun.experts import counts


@given(tokens=st.integers(1, 10_000), local=st.integers(1, 64), ranks=st.integers(1, 16))
def test_all_tokens_are_sent_and_nearly_evenly(tokens: int, local: int, ranks: int) -> None:
    ends, sent, received = counts(tokens, local * ranks, ranks)
    assert sum(sent) == tokens
    assert ends[-1] == sum(received)
    assert len(ends) == local
    assert len(sent) == len(received) == ranks
    shares = [end - start for start, end in zip((0, *ends), ends, strict=False)]
    assert max(shares) - min(shares) <= ranks
    assert tokens - sum(received) < ranks
