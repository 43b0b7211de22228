"""The experiments beside the factorial one, each a `lib.training.jobs.Experiment`: its jobs, how one runs, and the dataset of all.

Shown with the shortest of them, which is run as all others are::

    ds = run_experiment(LINEAR_GAPS, "smoke", load_profile("smoke"), cache="data/cache/linear_gaps")
"""
