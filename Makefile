# Two commands do everything: `make demo` and `make test`. Both set up .venv first, if needed.
# With another Python, 3.11 to 3.13, beside it: make test PYTHON=python3.13 VENV=.venv-3.13
# Without PYTHON it is the newest one that works here: a shim of pyenv may be there for a version that is not chosen.
PYTHON ?= $(firstword $(foreach name,python3.13 python3.12 python3.11,\
	$(shell $(name) -c 'import ensurepip; print("$(name)")' 2>/dev/null)) python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

# Where there is no NVIDIA GPU, torch comes without CUDA, which saves gigabytes.
TORCH_FROM := $(if $(shell command -v nvidia-smi),,--extra-index-url https://download.pytorch.org/whl/cpu)

.PHONY: demo test test-quick check notebooks docs colab gpu clean

demo: $(READY)
	$(BIN)/autograder demo

# On two cores three processes are quickest: some tests wait, and a fourth takes more time from the others than it fills.
test: $(READY) check
	$(BIN)/python -m pytest -q --durations=10 -n 3

# Under two minutes on two cores: no grading, no browser, no training, and two answers of each exercise.
test-quick: $(READY)
	$(BIN)/python -m pytest -q -n 2 -m unit

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell autograder benchmarks data docs solutions tests utils *.md *.toml
	$(BIN)/autograder build --check
	$(BIN)/autograder summaries --check

notebooks: $(READY)
	$(BIN)/autograder build

# The documentation, into docs/_build/html. A warning is an error, and so is a reference to nothing.
docs: $(READY)
	@echo "Rendering the pages, the notebooks and the API reference: two minutes on two cores."
	@$(BIN)/sphinx-build -W -n -q -j auto docs docs/_build/html
	@echo "The pages are in docs/_build/html: open docs/_build/html/index.html."

# All notebooks in the versions that Colab has, which are installed in .colab first (6 GB).
colab: $(READY)
	$(BIN)/python tests/colab/run.py

# On a machine with an NVIDIA GPU: every answer's verdict, every notebook, every experiment at size gpu with one seed.
# The table goes into gpu.json. Experiments need the hub, its cache, or COURSE_DATA.
gpu: $(READY)
	$(BIN)/python benchmarks/gpu.py

# Everything is installed at the versions of constraints.txt. An environment that works keeps its Python: made over with
# another one, it would be of neither. What setuptools warns of at every editable installation is not shown.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14) and "Python 3.11, 3.12 or 3.13 is needed: make PYTHON=python3.13")'
	@echo "Installing into $(VENV), once: 2.5 GB, mostly torch. It takes a few minutes, as long as the downloads do."
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade pip
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-deps $(TORCH_FROM) torch
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[instructor,drawings,dev,docs]"
	@touch $(READY)

clean:
	rm -rf $(VENV) .demo .colab docs/_build docs/api docs/generated docs/notebooks
