PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.installed

.PHONY: demo test test-optiland lint format docs bench clean

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

docs: $(STAMP)
	$(VENV)/bin/python -m pip install --quiet -e ".[docs]" -c constraints.txt
	$(VENV)/bin/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: $(STAMP)
	$(VENV)/bin/python -m pip install --quiet -e ".[bench]" -c constraints.txt
	$(VENV)/bin/python -m benchmarks all

# The environment is made once, and again when what it is made from changes.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet -e ".[dev]" -c constraints.txt
	touch $(STAMP)

clean:
	rm -rf $(VENV) build dist docs/_build docs/gallery docs/api.md .pytest_cache .ruff_cache
