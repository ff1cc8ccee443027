# Everything a newcomer needs: make demo, make test. Each target sets up what it needs first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS := $(VENV)/docs
# uv trusts what the system trusts, as pip does: behind a company's proxy its own list of authorities is not enough.
export UV_SYSTEM_CERTS ?= true

.PHONY: setup demo serving test test-machine test-browser test-kubernetes test-alone test-frameworks screenshots check experiment chaos bench mutants changelog release docs cluster-up cluster-down lock clean

setup: $(STAMP)

$(STAMP): requirements/dev.lock requirements/web.toml pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m uv --version >/dev/null 2>&1 || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/python -m uv pip sync --quiet --python $(BIN)/python --require-hashes requirements/dev.lock
	$(BIN)/python -m uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	$(BIN)/python -m tools.web_assets
	touch $@

check: setup docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.changelog check

test: test-machine test-browser test-kubernetes test-alone

# Two processes for each core: half of the time of a test is waiting for a process to start, answer or end.
test-machine: setup
	$(BIN)/python -m pytest -n $$((2 * $$(nproc))) --dist worksteal -m "not kubernetes and not frameworks and not browser"

# The dashboard in a real browser: one service and one Chromium for all of it.
test-browser: setup
	$(BIN)/python -m pytest -m browser tests/browser

# Starts a real Kubernetes cluster; the first time it builds the cluster's components (about 12 minutes).
test-kubernetes: setup
	$(BIN)/python -m pytest -n 3 --dist loadfile -m "kubernetes and not alone" tests/integration

# What stops parts of its cluster or changes the whole of it: two clusters, on each one test after the other.
test-alone: setup
	$(BIN)/python -m pytest -n 2 --dist loadfile --own-clusters -m "kubernetes and alone" tests/integration

# Trains with the real TensorFlow, PyTorch, JAX and MPI in an environment of their own (7 GB, announced, made once).
test-frameworks: setup
	$(BIN)/python -m tools.frameworks
	$(BIN)/python -m pytest -m frameworks --durations=0 tests/frameworks

demo: setup
	$(BIN)/python examples/mnist/demo.py

serving: setup
	$(BIN)/python examples/mnist/data.py data/mnist
	$(BIN)/python examples/mnist/serve.py --data data/mnist

# On a Kubernetes cluster: make experiment CONTEXT=prod IMAGE=acme/gangline:1
experiment: setup
	$(BIN)/python examples/mnist/data.py data/mnist
	$(BIN)/python examples/mnist/experiment.py --data data/mnist $(if $(CONTEXT),--context $(CONTEXT) --image $(IMAGE))

chaos: setup
	$(BIN)/python examples/mnist/data.py data/mnist
	$(BIN)/python examples/mnist/chaos.py --data data/mnist

# With the benchmarks of the simulator: make bench TRACES=directory of the public traces
bench: setup
	$(if $(TRACES),GANGLINE_TRACES=$(TRACES) )$(BIN)/python bench/all.py

cluster-up: setup
	$(BIN)/python -m tools.cluster up

cluster-down: setup
	$(BIN)/python -m tools.cluster down

# The pictures of the dashboard in docs/images.
screenshots: setup
	$(BIN)/python -m tools.screenshots

# Which changes of the code no test notices: make mutants PACKAGES="sweeps lifecycle" ARGS="--all"
mutants: setup
	$(BIN)/python -m tools.mutants $(ARGS) $(PACKAGES)

# Fold the fragments of changelog.d into CHANGELOG.md: make changelog VERSION=0.2.0
changelog: setup
	$(BIN)/python -m tools.changelog fold $(VERSION) $(shell date -u +%F)

# Wheel, sdist, chart and image recipe in dist/, each tried by installing it; ARGS=--draft for a tree that is no release yet.
release: setup
	rm -rf dist
	$(BIN)/python -m tools.release $(ARGS)

# The documentation as a site, in an environment of its own; what Sphinx would warn of, a broken link above all, fails.
docs: $(DOCS)/.installed
	rm -rf build/site
	PYTHONPATH=src:. $(DOCS)/bin/python -m sphinx --fail-on-warning --keep-going --quiet --builder dirhtml --doctree-dir build/doctrees docs build/site
	@echo "open build/site/index.html"

$(DOCS)/.installed: requirements/docs.lock | $(STAMP)
	test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	$(BIN)/python -m uv pip sync --quiet --python $(DOCS)/bin/python --require-hashes requirements/docs.lock
	touch $@

lock:
	$(BIN)/python -m uv pip compile --quiet --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 \
		--all-extras --group dev --output-file requirements/dev.lock pyproject.toml requirements/build.in
	$(BIN)/python -m uv pip compile --quiet --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 \
		--output-file requirements/base.lock pyproject.toml
	$(BIN)/python -m uv pip compile --quiet --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 \
		--extra data --extra grpc --extra katib --extra postgres --extra serve --extra team --extra tune --no-emit-package scipy --output-file requirements/image.lock pyproject.toml
	$(BIN)/python -m uv pip compile --quiet --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 \
		--output-file requirements/frameworks.lock pyproject.toml requirements/frameworks.in
	$(BIN)/python -m uv pip compile --quiet --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 \
		--group docs --output-file requirements/docs.lock pyproject.toml

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
