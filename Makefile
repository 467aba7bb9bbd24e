# Python >= 3.11 and make are all that is needed; everything else comes from the package index.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=
# manage.py looks for its packages there.
export VENV

.PHONY: help demo test prove bench compare bench-locks soak lint types messages reset lock clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

# The stamp files make a second run skip pip altogether.
$(VENV)/.run: requirements.txt
	@$(PYTHON) .ci/environment.py $(VENV) requirements.txt
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements-dev.txt
	@$(PYTHON) .ci/environment.py $(VENV) requirements.txt requirements-dev.txt
	@touch $@

demo: $(VENV)/.run  ## start the whole shop, prove it once, stay up until Ctrl-C
	@exec $(BIN)/python manage.py demo $(ARGS)

# Three at once on two cores, for the tests wait for more than half of their time.
test: $(VENV)/.dev  ## set up and pass the tests
	@$(BIN)/python -m pytest -n 3 --dist worksteal $(ARGS)

prove: $(VENV)/.run  ## a sale under load, judged (ARGS="--buyers 2000 --stock 100")
	@$(BIN)/python manage.py prove $(ARGS)

soak: $(VENV)/.run  ## hours of random faults (ARGS="--minutes 60 --folder .data/soak")
	@exec $(BIN)/python manage.py soak $(ARGS)

bench: $(VENV)/.run  ## every strategy beside the ceiling
	@$(BIN)/python manage.py bench $(ARGS)

compare: $(VENV)/.run  ## all strategies: rate, Redis away, verdict under faults (docs/strategies.md)
	@$(BIN)/python manage.py compare $(ARGS)

bench-locks: $(VENV)/.dev  ## the locks beside other libraries'
	@$(BIN)/python manage.py bench_locks $(ARGS)

lint: $(VENV)/.dev  ## ruff, and who may import whom
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports

types: $(VENV)/.dev  ## mypy
	@$(BIN)/mypy

messages: $(VENV)/.run  ## collect the shop's messages (needs GNU gettext) and compile the catalogues
	@$(BIN)/python manage.py makemessages -l zh_Hans --add-location=file --no-obsolete -i .venv
	@$(BIN)/pybabel -q compile -D django -d shop/locale

reset: $(VENV)/.run  ## forget the demo's data
	@$(BIN)/python manage.py reset

lock: $(VENV)/.dev  ## compile requirements*.in into requirements*.txt
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --no-header --no-emit-find-links --no-emit-index-url requirements.in -o requirements.txt
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --no-header --no-emit-find-links --no-emit-index-url requirements-dev.in -o requirements-dev.txt

clean:  ## remove the virtual environment and the data
	@rm -rf $(VENV) .data
