# One command for each main job; every target makes the virtual environment that it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Their own requirements name old versions of what we use, or the old gym; the bench extra has what their Sokoban needs.
PEERS := gem-llm==0.1.0 textarena==0.7.4 gym-sokoban==0.0.6
EXTRAS := fast,llm,api,peft,smollm2,sb3,trl,multiagent,code,sandbox,dev

.PHONY: train test test-slow test-compat lint bench claims credit clean

$(VENV)/installed: setup.cfg pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$(EXTRAS)]"
	touch $@

train: $(VENV)/installed  # oracle demonstrations, SFT and PPO of the tiny policy on TextFrozenLake-v0
	$(BIN)/python baselines/ppo_llm.py $(ARGS)

test: $(VENV)/installed  # the default test suite
	$(BIN)/python -m pytest -q $(ARGS)

test-slow: $(VENV)/installed  # the longer proofs
	$(BIN)/python -m pytest -q -m slow $(ARGS)

test-compat: $(VENV)/installed  # the environments and wrappers under the oldest Gymnasium that is supported
	$(PYTHON) -m venv $(VENV)-compat
	$(VENV)-compat/bin/pip install --quiet --disable-pip-version-check gymnasium==1.2.2 numpy pytest hypothesis build
	$(VENV)-compat/bin/pip install --quiet --disable-pip-version-check --no-deps -e .
	$(VENV)-compat/bin/python -m pytest -q tests --ignore=tests/agents --ignore=tests/baselines \
		--ignore=tests/test_examples.py --ignore=tests/test_package.py

lint: $(VENV)/installed  # style, and types of the environments and wrappers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build/types && mkdir -p build/types && cp -r src/turngym build/types/ && cp -r envs wrappers build/types/turngym/
	MYPYPATH=build/types $(BIN)/mypy --strict -p turngym.envs -p turngym.wrappers

bench: $(VENV)/installed  # speed against peers, as ratios in one run
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$(EXTRAS),bench]"
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps $(PEERS)
	$(BIN)/python benchmarks/envs.py
	$(BIN)/python benchmarks/sokoban_env.py
	$(BIN)/python benchmarks/sokoban_levels.py --parts deadlocks generation
	$(BIN)/python benchmarks/planning.py --parts libraries
	$(BIN)/python benchmarks/workers.py
	$(BIN)/python benchmarks/generation.py
	$(BIN)/python benchmarks/sandbox.py

claims: $(VENV)/installed  # what papers claim, put to the test: docs/results/claims.md (hours; ARGS=--quick to try it)
	$(BIN)/python benchmarks/claims.py $(ARGS)

credit: $(VENV)/installed  # estimated and true advantages: docs/results/credit.md (an hour; ARGS=--quick to try it)
	$(BIN)/python benchmarks/credit.py $(ARGS)

clean:
	rm -rf $(VENV) $(VENV)-compat build dist *.egg-info
