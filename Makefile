# Needs Python >= 3.11 and make; everything else comes from the package index.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=
# manage.py looks for its packages in VENV.
export VENV

.PHONY: help demo test prove prove-shop duel bench bench-locks soak lint format types audit mutation walk site messages take-home packages chart reset lock clean

help:  ## list the targets
	@$(PYTHON) -c 'import re; [print(f"  make {name:12} {text}") for name, text in re.findall("^([a-z-]+):.*## (.*)", open("Makefile").read(), re.M)]'
	@printf '\n  Options: make prove ARGS=--help. For example:\n    %s\n    %s\n' \
		'make prove ARGS="--buyers 2000 --stock 100"' \
		'make duel ARGS="--first naive --second combining"'

TEMPLATES := find course inventory lab own shop -path '*/templates/*' -name '*.html' -print0 | xargs -0 $(BIN)/djade --target-version 5.2

# The stamp files let a second run skip pip.
$(VENV)/.run: requirements.txt
	@$(PYTHON) .ci/environment.py $(VENV) requirements.txt
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements/dev.txt
	@$(PYTHON) .ci/environment.py $(VENV) requirements.txt requirements/dev.txt
	@touch $@

$(VENV)/.ci: $(VENV)/.dev requirements/ci.txt
	@$(PYTHON) .ci/environment.py $(VENV) requirements.txt requirements/dev.txt requirements/ci.txt
	@touch $@

$(VENV)/.mutation: $(VENV)/.dev requirements/mutation.txt
	@$(PYTHON) .ci/environment.py $(VENV) requirements.txt requirements/dev.txt requirements/mutation.txt
	@touch $@

demo: $(VENV)/.run  ## start the whole shop, prove it once, run until Ctrl-C
	@exec $(BIN)/python manage.py demo $(ARGS)

# Four processes on two cores, because the tests wait for more than half of their time. They start
# hundreds of others, none of which should compile the modules again.
test: export PYTHONDONTWRITEBYTECODE :=
test: $(VENV)/.dev  ## install the environment and run the tests (ARGS=--long: all)
	@$(BIN)/python -m pytest -n 4 --dist worksteal $(ARGS)

prove: $(VENV)/.run  ## run a sale under load and judge it
	@$(BIN)/python manage.py prove $(ARGS)

prove-shop: $(VENV)/.run  ## install, rush and judge a real shop (docs/shops.md)
	@$(BIN)/python manage.py prove_shop $(SHOP) $(ARGS)

duel: $(VENV)/.run  ## let two strategies sell to the same buyers
	@$(BIN)/python manage.py duel $(ARGS)

soak: $(VENV)/.run  ## repeat proofs under random faults until one is not passed
	@exec $(BIN)/python lab/soak.py $(ARGS)

bench: $(VENV)/.run  ## measure the strategies (docs/bench.md)
	@$(BIN)/python manage.py bench $(ARGS)

bench-locks: $(VENV)/.dev  ## compare the Redis lock with others (docs/bench.md)
	@$(BIN)/python manage.py bench_locks $(ARGS)

walk: $(VENV)/.run  ## show which files a purchase and other requests go through
	@$(BIN)/python manage.py walk $(ARGS)

lint: $(VENV)/.dev  ## check style, directions of imports, and migrations
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(TEMPLATES) --check && $(BIN)/lint-imports && $(BIN)/python manage.py lint_migrations

format: $(VENV)/.dev  ## format Python and templates
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format . && { $(TEMPLATES) || $(TEMPLATES) --check; }

types: $(VENV)/.dev  ## check types
	@$(BIN)/mypy

messages: $(VENV)/.run  ## collect, compile and check the translations (needs gettext)
	@$(BIN)/python manage.py messages $(ARGS)

audit: $(VENV)/.ci  ## look for secrets and for known vulnerabilities
	@$(BIN)/python .ci/find_secrets.py && .ci/audit

mutation: $(VENV)/.mutation  ## plant small bugs, and count those that the tests find
	@$(BIN)/python .ci/mutation.py $(ARGS)

site: $(VENV)/.ci  ## build the documentation's site, which the demo serves
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

take-home:  ## copy the shop into its own repository (docs/take-home.md)
	@$(or $(wildcard $(BIN)/python),$(PYTHON)) -m lab.take_home.repository "$$DEST" "$$NAME" $${PAGES:+"--pages=$$PAGES"} $${PAYMENTS:+"--payments=$$PAYMENTS"} $${LANGUAGES:+"--languages=$$LANGUAGES"} $${CURRENCY:+"--currency=$$CURRENCY"}

packages: $(VENV)/.dev  ## build the three packages into dist/
	@rm -rf dist
	@for name in locking inventory loadtest; do $(BIN)/uv build -q packaging/$$name -o dist || exit; done

chart: $(VENV)/.ci  ## render the Helm chart and check it against the schemas
	@$(BIN)/python .ci/check_chart.py

reset: $(VENV)/.run  ## delete the demo's data
	@$(BIN)/python manage.py reset

lock: COMPILE = pip compile -q --universal --python-version 3.11 --no-header --no-emit-find-links --no-emit-index-url
lock: HOME_FILES = lab/take_home/files
lock: $(VENV)/.dev  ## compile requirements/*.in into the pinned requirements
	@$(BIN)/uv $(COMPILE) requirements/run.in -o requirements.txt
	@for name in dev production load telemetry ci mutation; do \
		$(BIN)/uv --directory requirements $(COMPILE) $$name.in -o $$name.txt || exit; \
	done
	@$(BIN)/uv $(COMPILE) -c requirements.txt requirements/development.in -o $(HOME_FILES)/requirements.txt
	@$(BIN)/uv --directory requirements $(COMPILE) -c dev.txt test.in -o ../$(HOME_FILES)/requirements/dev.txt

clean:  ## remove the virtual environment and the data
	@rm -rf $(VENV) .data
