# Two commands do everything on a fresh machine: `make demo` runs the main job, `make test` the tests.
SHELL := /bin/bash
.DELETE_ON_ERROR:

PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3,$(shell command -v $(p) 2>/dev/null)))
VENV := .venv
BIN := $(VENV)/bin
CONSTRAINTS ?= constraints/cpu.txt
EXTRAS ?= dev
JOBS ?= 2
PYTEST := $(BIN)/python -m pytest --ignore=tests/slurm -n $(JOBS) --dist loadgroup --no-loadscope-reorder
SLURM := slurm-wlm munge iproute2
READY := $(VENV)/.ready

.PHONY: setup demo test test-fast test-slurm lint bench clean

setup: $(READY)

$(READY): pyproject.toml $(CONSTRAINTS)
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed and none was found."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; $(PYTHON) is older. Try: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "installing python3-venv"; \
	  apt-get update -qq && apt-get install -y -qq python3-venv; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) -e '.[$(EXTRAS)]'
	touch $@

demo: $(READY)
	$(BIN)/launch pipeline recipe=imagination_cot scale=tiny

test: $(READY)
	$(PYTEST)

test-fast: $(READY)
	$(PYTEST) -m "not slow"

# Against a real Slurm that the tests start themselves. Where it is missing and may be installed, it is.
test-slurm: $(READY)
	@{ command -v slurmctld && command -v slurmd && command -v munged && command -v ip; } >/dev/null || \
	  [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || { echo "installing $(SLURM)"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(SLURM) || \
	  echo "they could not be installed: the tests are skipped, with the reason"; }
	$(BIN)/python -m pytest -rs tests/slurm

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python -m bench.launch
	$(BIN)/python -m bench.teacher
	$(BIN)/python -m bench.evaluation
	$(BIN)/python -m bench.data
	$(BIN)/python -m bench.monosr --images 1000 10000
	$(BIN)/python -m bench.omni3d --annotations 50000 200000
	$(BIN)/python -m bench.coverage
	$(BIN)/python -m bench.rewards

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .ruff_cache
