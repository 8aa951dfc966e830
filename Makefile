PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.installed

.PHONY: demo test test-optiland lint format docs bench clean

demo: $(STAMP)
	$(VENV)/bin/python examples/optimize_doublet.py

test: $(STAMP)
	$(VENV)/bin/python -m pytest

# What needs Optiland, which brings a gigabyte of VTK and Numba: not among what `make test` installs.
test-optiland: $(VENV)/.optiland
	$(VENV)/bin/python -m pytest tests/adapters

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

format: $(STAMP)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

docs: $(VENV)/.docs
	$(VENV)/bin/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: $(VENV)/.bench
	$(VENV)/bin/python -m benchmarks all

# The environment is made once, and again when what it is made from changes.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet -e ".[dev]" -c constraints.txt
	touch $(STAMP)

# An extra is installed once in that environment: after that, these commands want no network.
$(VENV)/.%: $(STAMP)
	$(VENV)/bin/python -m pip install --quiet -e ".[$*]" -c constraints.txt
	touch $@

clean:
	rm -rf $(VENV) build dist docs/_build docs/gallery docs/api.md .pytest_cache .ruff_cache
