PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.installed

.PHONY: demo test test-optiland lint format bench clean

demo: $(STAMP)
	$(VENV)/bin/python examples/optimize_doublet.py

test: $(STAMP)
	$(VENV)/bin/python -m pytest

# What needs Optiland, which brings a gigabyte of VTK and Numba: not among what `make test` installs.
test-optiland: $(STAMP)
	$(VENV)/bin/python -m pip install --quiet -e ".[optiland]" -c constraints.txt
	$(VENV)/bin/python -m pytest tests/adapters

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

format: $(STAMP)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

bench: $(STAMP)
	$(VENV)/bin/python -m pip install --quiet -e ".[bench]" -c constraints.txt
	$(VENV)/bin/python -m benchmarks all

# The environment is made once, and again when what it is made from changes.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet -e ".[dev]" -c constraints.txt
	touch $(STAMP)

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache
