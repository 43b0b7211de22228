"""The papers' claims: what each says, the quantity that decides it, and the verdict.

- ``claim``: a claim and its region, read from ``data/published/claims/*.yaml``;
- ``estimates``: a quantity with its 95 % interval;
- ``power``: how often an experiment of this size would agree;
- ``verdict``: the one rule that turns an estimate into a verdict, with its reason;
- ``correction``: p-values, Holm, and Benjamini and Hochberg;
- ``networks``: the networks of one group of runs, and what speaks against a verdict on them;
- ``comparisons``, ``measurements``, ``time_steps``: the quantities that claims name, by verb;
- ``short_runs``: what a verdict may rest on if our runs were shorter than the paper's;
- ``estimating``: the quantity that decides a claim, from its verb and its networks;
- ``judging``: every claim of a group as a row of a table, and as a sentence;
- ``factorial``, ``tasks``, ``models``, ``chapter2``: judges with an estimator of their own.

``tests/test_claims.py`` draws data in which the claim of each judge is false, and requires that
hardly any verdict is "agrees". What holds whatever the data is not a claim and is not listed.
"""
