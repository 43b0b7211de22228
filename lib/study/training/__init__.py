"""Training: from a profile of `params.yaml` to the datasets of results.

How a run passes through the modules:

1. `profile` loads and checks a profile (`run_checks`): the designs of every dataset.
2. `plans` turns designs into jobs (`job`), each of one kind of experiment (`experiments`).
3. `jobs` computes the cache key of each job (`cache_key`), reads cached results (`shards`) and
   sends the missing jobs to Dask workers (`cluster`). `progress` and `log` report.
4. `worker` runs a job in a worker process. The job's experiment trains it: `runs`, `factorial`,
   `latching`, `linear_gaps` or `interventions`. The last one has its own design and loop
   (`intervention_design`, `treated_networks`, `adjoint_treatments`).
5. A run loads its data (`run_data`), builds a model (`model`), estimates its memory (`memory`), and
   calls the training loop with an objective (`objectives`): `loop` for one model, or `batched` for
   several models in one vmapped pass (`vmapped_pass`). Both use `batches`, `optimizers`,
   `recorder`, `state` and `checkpoint`. On a GPU, `loop` replays CUDA graphs: of whole steps
   (`graphed_step`) if possible, else of passes (`graphed_objective`).
6. `scores`, `measures`, `probe` and `equilibria` measure the model; `recorder` says when.
7. `shards` stores the results as sealed files (`sealed`). `datasets` joins the results of all jobs
   to one dataset, by `run_dataset` or `design_datasets`.

`seeds` derives all random numbers from the settings, so results don't depend on where or when a job
runs.

In this package, a *data set* is what networks are trained on, and a *dataset* (`xarray.Dataset`) is
a file with the results of a group.
"""
