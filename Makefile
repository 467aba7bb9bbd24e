# Needs Python >= 3.11 and make; everything else comes from the package index.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=
# manage.py looks for its packages in VENV.
export VENV

.PHONY: help demo test prove duel bench compare bench-locks scaling soak mutants lint types audit site messages packages chart reset lock clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

# The stamp files let a second run skip pip.
$(VENV)/.run: requirements.txt
	@$(PYTHON) .ci/environment.py $(VENV) requirements.txt
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements-dev.txt
	@$(PYTHON) .ci/environment.py $(VENV) requirements.txt requirements-dev.txt
	@touch $@

$(VENV)/.ci: $(VENV)/.dev requirements-ci.txt
	@$(PYTHON) .ci/environment.py $(VENV) requirements.txt requirements-dev.txt requirements-ci.txt
	@touch $@

demo: $(VENV)/.run  ## start the whole shop, prove it once, run until Ctrl-C
	@exec $(BIN)/python manage.py demo $(ARGS)

# Four processes on two cores, because the tests wait for more than half of their time. They start
# hundreds of others, none of which should compile the modules again.
test: export PYTHONDONTWRITEBYTECODE :=
test: $(VENV)/.dev  ## install the environment and run the tests (ARGS=--long: the long ones too)
	@$(BIN)/python -m pytest -n 4 --dist worksteal $(ARGS)

prove: $(VENV)/.run  ## run a sale under load and judge it (ARGS="--buyers 2000 --stock 100")
	@$(BIN)/python manage.py prove $(ARGS)

duel: $(VENV)/.run  ## let two strategies sell to the same buyers (ARGS="--first naive --second combining")
	@$(BIN)/python manage.py duel $(ARGS)

scaling: $(VENV)/.dev  ## measure purchases, and model them up to 100 web nodes (docs/scaling.md)
	@$(BIN)/python manage.py scaling $(ARGS)

soak: $(VENV)/.run  ## repeat proofs under random faults (ARGS="--minutes 60 --folder .data/soak")
	@exec $(BIN)/python manage.py soak $(ARGS)

mutants: $(VENV)/.dev  ## plant bugs, one at a time, and see what finds them (ARGS="--tests --jobs 2")
	@exec $(BIN)/python manage.py mutants $(ARGS)

bench: $(VENV)/.run  ## measure the request rate of the strategies (docs/bench.md)
	@$(BIN)/python manage.py bench $(ARGS)

compare: $(VENV)/.run  ## measure and judge every strategy (docs/strategies.md)
	@$(BIN)/python manage.py compare $(ARGS)

bench-locks: $(VENV)/.dev  ## measure the Redis lock beside other libraries (docs/bench-locks.md)
	@$(BIN)/python manage.py bench_locks $(ARGS)

lint: $(VENV)/.dev  ## check style, the direction of imports, and that migrations suit a live sale
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports && $(BIN)/python manage.py lint_migrations

types: $(VENV)/.dev  ## check types
	@$(BIN)/mypy

messages: $(VENV)/.run  ## collect the pages' messages (needs GNU gettext) and compile the catalogues
	@$(BIN)/python manage.py makemessages -l zh_Hans --add-location=file --no-obsolete -i .venv
	@for app in shop lab; do $(BIN)/pybabel -q compile -D django -d $$app/locale || exit; done

audit: $(VENV)/.ci  ## look for secrets in the repository and for known vulnerabilities
	@$(BIN)/python .ci/find_secrets.py && .ci/audit

site: $(VENV)/.ci  ## build the documentation's site into site/ (the demo serves it at /docs/site/)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

packages: $(VENV)/.dev  ## build the packages of locking and inventory into dist/
	@rm -rf dist
	@for name in locking inventory; do $(BIN)/uv build -q packaging/$$name -o dist || exit; done

chart: $(VENV)/.ci  ## render the Helm chart and check it against the schemas of Kubernetes
	@$(BIN)/python .ci/check_chart.py

reset: $(VENV)/.run  ## delete the demo's data
	@$(BIN)/python manage.py reset

lock: $(VENV)/.dev  ## compile requirements*.in into requirements*.txt
	@for name in requirements requirements-dev requirements-production requirements-load requirements-telemetry requirements-ci; do \
		$(BIN)/uv pip compile -q --universal --python-version 3.11 --no-header --no-emit-find-links --no-emit-index-url $$name.in -o $$name.txt || exit; \
	done

clean:  ## remove the virtual environment and the data
	@rm -rf $(VENV) .data
