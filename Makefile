# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# One thread per test worker: more would only make the two workers fight for the cores.
WORKERS ?= 2

.PHONY: demo test check docs figures dist gpu soak sanitize bench format clean

demo: $(READY)
	$(BIN)/multipool demo

test: check
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)

check: $(READY)
	$(BIN)/ruff check src tests examples tools
	$(BIN)/ruff format --check src tests examples tools
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site, whole in itself, in build/site; a link or a name that leads nowhere is an error.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build  # --quiet would swallow what strict counts
	@echo "build/site/index.html; with search: python3 -m http.server --directory build/site"

figures: $(READY)
	$(BIN)/python tools/figures/draw.py

# Two wheels: with the compiled parts, for CPython 3.11 and later, and one for everything else.
WHEEL := $(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
dist: $(READY)
	rm -rf dist build/lib build/bdist.* && $(WHEEL)
	rm -rf build/lib build/bdist.* && MULTIPOOL_PURE=1 $(WHEEL)
	@ls dist

# On a machine with a GPU; torch, numpy and safetensors are enough there.
gpu:
	PYTHONPATH=src $(PYTHON) tests/gpu/run.py

soak: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow -s

# The extensions under the address and undefined-behaviour sanitizers, in a copy of the package.
SANITIZED := build/sanitize
SANITIZERS := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g
sanitize: $(READY)
	rm -rf $(SANITIZED) && mkdir -p $(SANITIZED) && cp -r src/multipool $(SANITIZED)/
	rm -f $(SANITIZED)/multipool/memory/_decide*.so $(SANITIZED)/multipool/memory/_pixels*.so \
		$(SANITIZED)/multipool/decode/_chains*.so \
		$(SANITIZED)/multipool/methods/multipool/_gaussians*.so
	CFLAGS="$(SANITIZERS)" LDFLAGS="$(SANITIZERS)" $(BIN)/python setup.py --quiet build_ext --force \
		--build-temp $(SANITIZED)/temp --build-lib $(SANITIZED)
	test -f $(SANITIZED)/multipool/memory/_decide*.so
	test -f $(SANITIZED)/multipool/memory/_pixels*.so
	test -f $(SANITIZED)/multipool/decode/_chains*.so
	test -f $(SANITIZED)/multipool/methods/multipool/_gaussians*.so
	LD_PRELOAD="$$($(CC) -print-file-name=libasan.so)" PYTHONMALLOC=malloc \
		ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 OMP_NUM_THREADS=1 \
		PYTHONPATH=$(SANITIZED) $(BIN)/python -m pytest -p no:cacheprovider tests/memory tests/decode \
		tests/methods/multipool/test_gaussians.py tests/fuzz/test_extension_calls.py tests/fuzz/test_memory_calls.py

bench: $(READY)
	$(BIN)/multipool bench memory
	$(BIN)/multipool bench corruptions
	$(BIN)/multipool bench methods

format: $(READY)
	$(BIN)/ruff check --fix src tests examples tools
	$(BIN)/ruff format src tests examples tools

# Reinstalled only when what it was made from changes.
$(READY): pyproject.toml constraints.txt setup.py $(wildcard src/multipool/memory/*.[ch])
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(READY)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
