# One command for each main job; every target makes the virtual environment that it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGE := setup.cfg pyproject.toml constraints.txt

.PHONY: train test lint bench clean

$(VENV)/installed: $(PACKAGE)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[llm,sb3,trl,multiagent,dev]"
	touch $@

train: $(VENV)/installed  ## Oracle demonstrations, SFT and PPO of the tiny policy on TextFrozenLake-v0
	$(BIN)/python baselines/ppo_llm.py $(ARGS)

test: $(VENV)/installed  ## The default test suite
	$(BIN)/python -m pytest -q $(ARGS)

lint: $(VENV)/installed  ## Style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

bench: $(VENV)/installed  ## Speed against peers, as ratios in one run
	$(BIN)/python benchmarks/envs.py

clean:
	rm -rf $(VENV) build dist *.egg-info
