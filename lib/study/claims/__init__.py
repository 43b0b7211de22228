"""The papers' claims: what each says, the quantity that decides it, and the verdict.

- ``claim``, ``region``: a claim, and the values for which it is true;
- ``listed``: all claims, read from ``data/published/claims/*.yaml``;
- ``estimates``: a quantity with its 95% interval;
- ``intervals``, ``extremes``: estimates with their intervals, for several judges;
- ``power``: how often an experiment of this size would agree;
- ``verdict``: the one rule that turns an estimate into a verdict, with its reason;
- ``correction``: p-values, Holm, and Benjamini and Hochberg;
- ``networks``: the networks of one group of runs;
- ``search``: what was tried for a network, and whether its best setting is at an edge of the grid;
- ``experiment_sizes``: the size of an experiment;
- ``testable``: whether a claim about networks can be tested;
- ``undecided``, ``caveats``, ``tuning``, ``short_runs``: objections to a verdict on networks;
- ``sampling``, ``cross_fitting``: the finite test set, and learning rates chosen on it;
- ``comparisons``, ``relative_to_chance``, ``scores_over_runs``, ``training_steps``,
  ``gradient_norms``, ``time_steps``: the estimators that claims name;
- ``traits``, ``kinds``: what each of these estimators measures, and the kind of claim that
  follows from it, which the rules above depend on;
- ``estimating``: the estimate that decides a claim, from its estimator and its networks;
- ``judging``: every claim of a group as a row of a table, and as a sentence;
- ``standings``: columns for tables of networks: who leads, and who learned;
- ``factorial``, ``error_rates``, ``counterexamples``, ``tasks``, ``models``, ``linear_gaps``,
  ``coadjoint_gaps``, ``padding``, ``latching``: judges with an estimator of their own;
- ``reversal``, ``operations``: estimates of what notebooks measure without training;
- ``unmeasured``: claims about times, which are listed as not testable;
- ``shuffled``: the same claims after the labels of networks are shuffled.

For each judge, ``tests/test_judging.py`` simulates data in which the claim is false and requires
that hardly any verdict is "agrees". A statement that is true for any data is not listed as a claim.
"""
