# make demo   a simulated site through the real pipeline, without a GPU
# make test   format check, lint, types and tests, as CI runs them
# The environment is made on first use, from the lock file with its hashes.

BIN := .venv/bin
MADE := .venv/.made
ARGS ?=
export PYTHON
# Some images forbid Python to keep what it has compiled. Every process of a test would compile all of ours anew.
export PYTHONDONTWRITEBYTECODE :=
# Up to 3.11.7 a thread that looks for carets for a traceback, while another parses, ends in a SystemError (gh-106905).
export PYTHONNODEBUGRANGES := 1

BENCHES := $(addprefix bench-,truth published real analyzer agent ingest decode tsdb agents query faults fuzz parsers sizes scale placement savings finops bills dialects pages plans plan_scale suite hostile aging upkeep installs metamorphic left_out calibration)
.PHONY: help demo test types tests soak record services wheel manual licences sbom lock docs site grafana picture plotly clean $(BENCHES)

help:
	@sed -n 's/^# make/make/p' Makefile
	@echo "make soak | record | services | wheel | manual | licences | sbom | lock | docs | site | grafana | picture | plotly | clean"
	@echo "make $(BENCHES)" | sed 's/ bench/ | bench/g; s/make |/make/' | fold -s -w 100

# uv makes the environment in seconds. Where packages are reached by pip's own settings alone, pip makes it.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps
$(MADE): requirements.lock requirements-uv.lock pyproject.toml
	@python=$$(.ci/python) && $$python -m venv .venv
	@echo "making .venv from requirements.lock"
	@$(PIP) --require-hashes -r requirements-uv.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --require-hashes -r requirements.lock \
	  || $(PIP) --require-hashes -r requirements.lock
	@$(PIP) --no-build-isolation -e .
	@touch $@

demo: $(MADE)
	@$(BIN)/gpuledger demo $(ARGS)

test: $(MADE)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(MAKE) --no-print-directory -j2 types tests

# Beside the first tests, which wait for processes of their own: it needs half a minute of one core.
types: $(MADE)
	$(BIN)/mypy

# In a fresh clone one process compiles all first: else each worker does, of all files, at once with the others.
tests: $(MADE)
	@test -d tests/__pycache__ || $(BIN)/python -m pytest -q --collect-only >/dev/null || true
	$(BIN)/python -m pytest -q -n auto --dist loadfile --no-loadscope-reorder --max-worker-restart=8 $(ARGS)

# What takes minutes: real processes that are killed, cut off and restored, over and over; and more examples of what is
# drawn.
soak: $(MADE)
	$(BIN)/python -m pytest -q -n 2 -m "soak or hypothesis" --hypothesis-profile=soak $(ARGS)

# All that the product says over the demo's week, kept as texts outside the repository, and two of them compared.
record: $(MADE)
	@$(BIN)/python -m bench.record $(ARGS)

# What the tests need beside Python: a compiler for the fake driver and a clock that is moved, an allocator that is quick
# (tests/conftest.py), a browser for the pages, systemd to check the units, promtool for what is scraped, Alertmanager for
# what is told, openssl for certificates, network namespaces for flows, a Slurm of several hosts, PostgreSQL for a
# fleet's catalogue, VictoriaMetrics to ask and to compare with, shells and groff for what they read, proxies to stand behind, pgbouncer before PostgreSQL. Each test starts
# its own.
services:
	@.ci/apt gcc libc6-dev libtcmalloc-minimal4 chromium-headless-shell fonts-dejavu-core systemd prometheus openssl \
	  iproute2 util-linux mount strace prometheus-alertmanager postgresql victoria-metrics zsh fish groff nginx-light haproxy caddy pgbouncer \
	  slurmctld slurmd slurmdbd slurm-client slurm-wlm-basic-plugins slurm-wlm-mysql-plugin mariadb-server

# Figures go to bench/results, which documents and tests read, with ARGS=--record alone.
$(BENCHES): bench-%: $(MADE)
	@$(BIN)/python bench/bench_$*.py $(ARGS)

docs: $(MADE)
	@$(BIN)/python -m bench.contract_document docs
	@$(BIN)/python -m bench.glossary_document docs
	@$(BIN)/python -m bench.detectors_document docs bench/results/truth.json bench/results/calibration.json

# The dashboards as JSON, from the code beside it.
grafana: $(MADE)
	@$(BIN)/python -m dashboards.grafana

# The documents as a site in dist/site, by mkdocs in an environment of its own.
site:
	@test -x .venv-site/bin/mkdocs || { python=$$(.ci/python) && $$python -m venv .venv-site \
	  && .venv-site/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-site.lock; }
	@.venv-site/bin/mkdocs build --quiet --strict && echo "dist/site/index.html"

# The public validator of FOCUS, which wants Python 3.12, in an environment of its own: tests of the export then ask it.
validator:
	@test -x .venv-focus/bin/focus-validator || { python=$$(PYTHON="$${PYTHON:-python3.13 python3.12}" .ci/python) \
	  && $$python -m venv .venv-focus && .venv-focus/bin/python -m pip install --quiet --disable-pip-version-check \
	    focus-validator==2.2.1 'pyarrow<21'; }

# The report in the README and the states of docs/ledger.md, drawn anew from the demo's week.
picture: $(MADE)
	@store=$$(mktemp -d) && $(BIN)/python -m gpuledger demo --once --port 0 --store $$store/demo.duckdb >/dev/null \
	  && $(BIN)/python -m gpuledger report --store $$store/demo.duckdb --format svg --out docs/report.svg \
	  && $(BIN)/python -m bench.states_picture $$store/demo.duckdb docs/states.svg; rm -rf $$store
	@$(BIN)/python -m bench.page_picture docs/page.png

# The manual page and the completion of shells in share/, from the parsers; a wheel takes them along.
manual: $(MADE)
	@rm -rf share && $(BIN)/python .ci/manual.py share

# Every file, the wheel and every pinned package has a licence, and its text is here.
licences: wheel
	@$(BIN)/python .ci/licences.py dist/gpuledger-*.whl

# What each role installs, as CycloneDX in dist/sbom-ROLE.cdx.json.
sbom: $(MADE)
	@$(BIN)/python .ci/sbom.py dist

# The one file that is installed everywhere; `make wheel` before `docker build`.
wheel: manual
	@rm -rf dist && $(BIN)/python -m hatchling build -t wheel -d dist
	@cd dist && sha256sum gpuledger-*.whl > SHA256SUMS

# The roles' locks are parts of the whole one, for hosts and images.
COMPILE := $(BIN)/uv pip compile --quiet pyproject.toml --universal --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-annotate --no-header
lock: $(MADE)
	$(COMPILE) --python-version 3.11 --extra dev --output-file requirements.lock $(ARGS)
	for role in server fleet full; do \
	  $(COMPILE) --python-version 3.11 --extra $$role --constraint requirements.lock --output-file requirements-$$role.lock || exit; done
	$(COMPILE) --python-version 3.10 --constraint requirements.lock --output-file requirements-agent.lock
	$(COMPILE) --python-version 3.10 --extra kubernetes --constraint requirements.lock --output-file requirements-kubernetes.lock
	for tool in site:mkdocs==1.6.1 uv:uv==0.13.9; do \
	  echo $${tool#*:} | $(subst pyproject.toml,-,$(COMPILE)) --python-version 3.11 --output-file requirements-$${tool%%:*}.lock; done

# The part of plotly.js that draws our figures (analyzer/charts), once for each version of plotly. Needs npm.
PLOTLY = $(shell $(BIN)/python -c "from plotly.offline import get_plotlyjs_version; print(get_plotlyjs_version())")
BANNER = /* plotly.js $(PLOTLY): bars, lines, heat maps. Copyright 2012-2026, Plotly, Inc. MIT: plotly.LICENSE.txt. By make plotly. */
plotly: $(MADE)
	@made=$$(mktemp -d) && into=$$PWD/analyzer/charts && cd $$made \
	  && npm install --silent --ignore-scripts --no-save plotly.js@$(PLOTLY) esbuild@0.28.2 \
	  && echo 'const P = require("plotly.js/lib/core"); P.register([require("plotly.js/lib/bar"), require("plotly.js/lib/heatmap")]); module.exports = P;' > entry.js \
	  && node_modules/.bin/esbuild entry.js --bundle --minify --format=iife --global-name=Plotly --define:global=window \
	    --define:define.amd=false --target=es2020 --legal-comments=eof --loader:.css=empty "--banner:js=$(BANNER)" \
	    --log-level=warning --outfile=$$into/plotly.min.js \
	  && cp node_modules/plotly.js/LICENSE $$into/plotly.LICENSE.txt; rm -rf $$made

clean:
	rm -rf .venv .venv-site .venv-focus dist share .mypy_cache .ruff_cache .pytest_cache .hypothesis
