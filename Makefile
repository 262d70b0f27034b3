# Two commands: `make chat` and `make test`. Each sets up everything it needs in .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: chat test test-servers check bench traces screenshots clean

chat: $(VENV)/.ready
	@$(BIN)/cutaway chat

test: $(VENV)/.ready-dev check
	$(BIN)/pytest --numprocesses 2 --dist loadfile

check: $(VENV)/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

bench: $(VENV)/.ready-dev
	$(BIN)/python benchmarks/engine.py

$(VENV)/.ready: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@$(BIN)/python -m compileall -q engine tui themes # pip compiles what is not editable; else the first start has to
	@touch $@

$(VENV)/.ready-dev: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@ $(VENV)/.ready

# Against a real server: make test-servers CUTAWAY_TEST_SERVER=http://localhost:8000/v1
test-servers: $(VENV)/.ready-dev
	$(BIN)/pytest -m server -rs

# The snapshots and the README's pictures show these recordings of the real model: accept new snapshots after new traces.
traces: $(VENV)/.ready-dev
	$(BIN)/python -m tests.record_traces
	$(BIN)/python -m tests.record_tour

screenshots: $(VENV)/.ready-dev
	$(BIN)/python -m screenshots.make

clean:
	rm -rf $(VENV) build dist *.egg-info
