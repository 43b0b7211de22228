# Targets for daily work; `make help` lists them.
PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/pip install -qq --disable-pip-version-check --no-compile
REPORT := data/report/index.html
MACHINE ?= this-machine
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help repro compare look test trials exhaustive mutants lab lint readme report bench bench-gpu time-figure-1 keep-reference clean

help: ## list these targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

repro: $(VENV)/project $(VENV)/stripped ## install what is missing, rebuild what changed, compare with the committed numbers
	@python -m study.pipeline repro
	@echo "The report is $(REPORT)"
	@python -m study.report.compare

compare: $(VENV)/project ## compare the last rebuild with the committed numbers
	@python -m study.report.compare $(ARGS)

look: $(VENV)/project ## build the report of the stored results, without training
	@python -m study.report.look

test: $(VENV)/project ## run the tests in two processes; ARGS="-k cells" selects some of them
	pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

trials: $(VENV)/project ## feed thousands of bad inputs to everything that reads input, and count failures
	pytest tests/trials -m "trials and not exhaustive" $(ARGS)

exhaustive: $(VENV)/project ## test more draws, pages and widths than `make test` does; takes 4 minutes
	pytest tests/trials -m "trials and exhaustive" $(ARGS)

mutants: $(VENV)/project ## insert bugs, and list those that no test catches; continues where it stopped
	python tests/trials/mutate.py $(ARGS)

lab: $(VENV)/project ## open JupyterLab on the notebooks; ARGS="--no-browser" is passed to it
	jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) notebooks $(ARGS)

lint: $(VENV)/project ## check and fix style, notebooks included (the pre-commit hooks)
	pre-commit run --all-files

readme: $(VENV)/project ## write the results in README.md again, from existing results
	@python -m study.report.readme

report: $(VENV)/project ## build the report again from existing results
	@python -m study.pipeline repro --single-item report
	@echo "The report is $(REPORT)"

# The memory settings of study.training.cluster: the process keeps freed memory. Otherwise the time
# to get new pages for every large array would be measured, too.
bench time-figure-1: export MALLOC_TRIM_THRESHOLD_ := 4294967296
bench time-figure-1: export MALLOC_MMAP_THRESHOLD_ := 4294967296
bench time-figure-1: export MALLOC_ARENA_MAX := 1
bench: $(VENV)/project ## benchmark cells, training, statistics, and the coadjoint method: data/tables/bench_*.csv
	python -m study.pipeline notebooks/80_bench_cpu.ipynb data/bench/80_bench_cpu.ipynb \
	  -p out data/tables/bench_cpu.csv -p rounds 5 -p time_steps 784 -p widths "32 128" \
	  -p recurrences "128x1000x128 32x784x128"
	python -m study.pipeline notebooks/81_bench_statistics.ipynb data/bench/81_bench_statistics.ipynb \
	  -p out data/tables/bench_statistics.csv -p replicates 10
	python -m study.pipeline notebooks/83_bench_coadjoint.ipynb data/bench/83_bench_coadjoint.ipynb \
	  -p out data/tables/bench_coadjoint.csv -p lengths "28 140 364"
	python -m study.pipeline notebooks/84_bench_adding.ipynb data/bench/84_bench_adding.ipynb \
	  -p out data/tables/bench_adding.csv -p rounds 9 -p time_steps 750 -p width 128

bench-gpu: $(VENV)/project ## check and benchmark every kernel on an NVIDIA GPU: data/tables/bench_gpu.csv
	python -m study.bench.gpu --look
	pip install -r requirements-gpu.in -c requirements.lock
	python -m study.bench.gpu --out data/tables/bench_gpu.csv $(ARGS)

time-figure-1: $(VENV)/project ## time the workload of Figure 1 of UnICORNN and store it; MACHINE="name" names the file
	python -m study.pipeline notebooks/82_time_figure_1.ipynb data/bench/82_time_figure_1.ipynb \
	  -p out data/tables/time_figure_1.csv -p keep data/reference/timings/$(MACHINE).csv \
	  -p rounds 5 -p batch 128 -p lengths "1000 2000" -p width 128

keep-reference: $(VENV)/project ## store results in data/reference, with provenance; NAMES="adding" selects some
	python -m study.results.reference $(NAMES)

clean: ## remove what the pipeline made; downloads, finished runs and DVC's cache stay
	rm -rf data/bench data/code data/coverage.csv data/executed data/interactive data/look \
	  data/made data/prepared data/report data/results data/simulated data/tables

# Create the environment again if it has lost its Python (after a system upgrade) or its packages.
define WHOLE
from importlib.util import find_spec; print(all(map(find_spec, ("dvc", "papermill", "torch"))))
endef
ifneq ($(wildcard $(VENV)/requirements),)
ifneq ($(shell $(VENV)/bin/python -c '$(WHOLE)' 2>/dev/null),True)
$(shell rm -f $(VENV)/requirements)
endif
endif

# Large parts of the environment that neither the pipeline nor the tests import.
NOT_IMPORTED := (tests|sympy/physics|tornado/test|aiohttp|asyncssh|celery|kombu|sqlalchemy)

# Create it again whenever the requirements change, so that it has exactly the listed packages.
$(VENV)/requirements: requirements.in requirements.lock
	@$(PYTHON) -c 'import sys; v = sys.version_info; v < (3, 11) and sys.exit( \
	  f"this needs Python 3.11 or later, $(PYTHON) is {v[0]}.{v[1]}; name another one: make PYTHON=python3.11")'
	@echo "Setting up the environment $(VENV); it takes a minute or two and about 2.5 GB"
	@$(PYTHON) -m venv --clear $(VENV)
	@# The pip of Python 3.11 takes 20 seconds longer to find the same versions.
	@$(PIP) --upgrade pip
	@$(PIP) -r requirements.in -c requirements.lock
	@# Faster than by pip: on all cores, and without what is not imported. A few files are not Python.
	@$(VENV)/bin/python -m compileall -qq -j 0 -x '/$(NOT_IMPORTED)/' $(VENV)/lib || true
	@touch $@

$(VENV)/project: $(VENV)/requirements pyproject.toml
	@$(PIP) --no-deps --no-build-isolation -e .
	@test -e .git || $(VENV)/bin/dvc config --local core.no_scm true # a ZIP download
	@# Where PYTHONDONTWRITEBYTECODE is set, as in containers, each process would compile them again.
	@$(VENV)/bin/python -m compileall -q lib tests
	@touch $@

# Strip the notebooks saved since. An output or an execution count would make their stages stale.
$(VENV)/stripped: $(wildcard notebooks/*.ipynb) | $(VENV)/project
	@nbstripout --keep-id --extra-keys "metadata.language_info.version" $?
	@touch $@
