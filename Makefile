# Two commands do everything: `make demo` and `make test`. Both set up .venv first, if needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

.PHONY: demo test check notebooks clean

demo: $(READY)
	$(BIN)/autograder demo

test: $(READY) check
	$(BIN)/python -m pytest -q --durations=10 -n 2

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/autograder build --check

notebooks: $(READY)
	$(BIN)/autograder build

# Everything is installed at the versions of constraints.txt.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt "torch==2.13.0"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[instructor,dev]"
	touch $(READY)

clean:
	rm -rf $(VENV) .demo
