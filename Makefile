# Daily work in one word each; `make help` lists them.
PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/pip install -qq --disable-pip-version-check
REPORT := data/report/index.html
MACHINE ?= this-machine
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help repro look test trials mutants lab lint readme report bench bench-gpu time-figure-1 keep-reference clean

help: ## list these words
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

repro: $(VENV)/project $(VENV)/stripped ## set up what is missing, rebuild what changed, and say where the report is
	@python -m study.pipeline repro
	@echo "The report is $(REPORT)"

look: $(VENV)/project ## analyse the stored results alone, without training, and say where to read of them
	@python -m study.report.look

test: $(VENV)/project ## run the tests in two processes; ARGS="-k cells" chooses among them
	pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

trials: $(VENV)/project ## hand thousands of pieces of bad input to all that reads input, and count what goes wrong
	pytest tests/trials -m trials $(ARGS)

mutants: $(VENV)/project ## make errors in the code, and list those that no test notices; goes on where it ended
	python tests/trials/mutate.py $(ARGS)

lab: $(VENV)/project ## open JupyterLab on the notebooks; ARGS="--no-browser" for what jupyter lab takes
	jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) notebooks $(ARGS)

lint: $(VENV)/project ## check and mend style, notebooks included (the hooks of pre-commit)
	pre-commit run --all-files

readme: $(VENV)/project ## compute the results in README.md again from what is already there
	@python -m study.report.readme

report: $(VENV)/project ## build the report again from what is already there
	@python -m study.pipeline repro --single-item report
	@echo "The report is $(REPORT)"

# As study.training.cluster starts its workers: the process keeps freed memory, fresh pages would be timed with every large array.
bench: export MALLOC_TRIM_THRESHOLD_ := 4294967296
bench: export MALLOC_MMAP_THRESHOLD_ := 4294967296
bench: export MALLOC_ARENA_MAX := 1
bench: $(VENV)/project ## time cells, training, statistics and the coadjoint method here: data/tables/bench_*.csv
	python -m study.pipeline notebooks/80_bench_cpu.ipynb data/bench/80_bench_cpu.ipynb \
	  -p out data/tables/bench_cpu.csv -p rounds 5 -p time_steps 784 -p widths "32 128" -p recurrences "128x1000x128 32x784x128"
	python -m study.pipeline notebooks/81_bench_statistics.ipynb data/bench/81_bench_statistics.ipynb \
	  -p out data/tables/bench_statistics.csv -p replicates 10
	python -m study.pipeline notebooks/83_bench_coadjoint.ipynb data/bench/83_bench_coadjoint.ipynb \
	  -p out data/tables/bench_coadjoint.csv -p lengths "28 140 364"
	python -m study.pipeline notebooks/84_bench_adding.ipynb data/bench/84_bench_adding.ipynb \
	  -p out data/tables/bench_adding.csv -p time_steps 750 -p width 128

bench-gpu: $(VENV)/project ## check and time every kernel on an NVIDIA GPU: data/tables/bench_gpu.csv
	python -m study.bench.gpu --look
	pip install -r requirements-gpu.in -c requirements.lock
	python -m pytest -q -m gpu tests/test_gpu.py
	python -m study.bench.gpu --out data/tables/bench_gpu.csv

time-figure-1: $(VENV)/project ## time the workload of UnICORNN's Figure 1 and keep it; MACHINE="name" names the file
	python -m study.pipeline notebooks/82_time_figure_1.ipynb data/bench/82_time_figure_1.ipynb \
	  -p out data/tables/time_figure_1.csv -p keep data/reference/timings/$(MACHINE).csv -p rounds 5 -p batch 128 -p lengths "1000 2000" -p width 128

keep-reference: $(VENV)/project ## keep results in data/reference, with provenance; NAMES="adding" chooses
	python -m study.results.reference $(NAMES)

clean: ## remove what the pipeline made; downloads, shards and DVC's cache stay
	rm -rf data/bench data/code data/coverage.csv data/executed data/interactive data/look data/made data/prepared data/report data/results data/simulated data/tables

# An environment that has lost its Python, as in an upgrade of the system, or its packages is made anew.
define WHOLE
from importlib.util import find_spec; print(all(map(find_spec, ("dvc", "papermill", "torch"))))
endef
ifneq ($(wildcard $(VENV)/requirements),)
ifneq ($(shell $(VENV)/bin/python -c '$(WHOLE)' 2>/dev/null),True)
$(shell rm -f $(VENV)/requirements)
endif
endif

# Built anew whenever the requirements change, so that it always holds exactly what they say.
$(VENV)/requirements: requirements.in requirements.lock
	@$(PYTHON) -c 'import sys; v = sys.version_info; v < (3, 11) and sys.exit( \
	  f"this needs Python 3.11 or later, $(PYTHON) is {v[0]}.{v[1]}; name another one: make PYTHON=python3.11")'
	@echo "Setting up the environment $(VENV); it takes a minute or two and about 2.5 GB"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP) -r requirements.in -c requirements.lock
	@touch $@

$(VENV)/project: $(VENV)/requirements pyproject.toml
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

# Notebooks changed since: an output or an execution count would make their stages stale.
$(VENV)/stripped: $(wildcard notebooks/*.ipynb) | $(VENV)/project
	@nbstripout --keep-id --extra-keys "metadata.language_info.version" $?
	@touch $@
