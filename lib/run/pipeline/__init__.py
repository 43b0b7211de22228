"""Keep `dvc.yaml` in step with the notebooks: a new notebook is one new file, and no dependency is forgotten.

`python -m lib.run.pipeline` (`make repro` and the commit hook call it) writes into `dvc.yaml`

- a stage for every experiment, ``notebooks/1[1-9]_<verb>_<name>.ipynb``. It writes ``data/results/<name>.nc`` and depends on
  the section ``<name>`` of the chosen profile, if there is one;
- a stage for every analysis, ``notebooks/[2-7]*.ipynb``. The default of its parameter ``results`` names the dataset that
  it reads; it is run once for each set of results of that dataset, `lib.run.pipeline.datasets.result_sets`;
- the dependencies of every stage: the notebook, the data it reads, and exactly those modules of `lib` that it imports,
  directly or through others, so that a change of a plot does not train any network again.

All else in `dvc.yaml` is written by hand and left alone.
"""
