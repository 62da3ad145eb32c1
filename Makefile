# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# One thread per test worker: more would only make the two workers fight for the cores.
WORKERS ?= 2

.PHONY: demo test check soak bench format clean

demo: $(READY)
	$(BIN)/multipool demo

test: check
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)

check: $(READY)
	$(BIN)/ruff check src tests examples
	$(BIN)/ruff format --check src tests examples
	$(BIN)/mypy
	$(BIN)/lint-imports

soak: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow -s

bench: $(READY)
	$(BIN)/multipool bench memory
	$(BIN)/multipool bench corruptions
	$(BIN)/multipool bench methods

format: $(READY)
	$(BIN)/ruff check --fix src tests examples
	$(BIN)/ruff format src tests examples

# Reinstalled only when what it was made from changes.
$(READY): pyproject.toml constraints.txt setup.py $(wildcard src/multipool/memory/*.[ch])
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(READY)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
