# `make` alone lists the targets. `make demo` and `make test` do all set-up on a new machine themselves.
.DEFAULT_GOAL := help
.PHONY: help demo pipeline test test-core mutants wheelhouse aarch64 python3.14 musl release build lint instructions bench sparks damages fence vectors fuzz lock docs clean

# Where the environment forbids bytecode, each of the tests' thousands of processes compiles the same modules again.
unexport PYTHONDONTWRITEBYTECODE

ENV    := . ./.work/env.sh &&
PYTHON := .venv/bin/python

CORE_TESTS = $$(grep -rlE '^(pytestmark = \[?|@)pytest\.mark\.core' --include='test_*.py' tests)
PROPERTY_TESTS = $$(grep -rlE "^((import|from) hypothesis|from long_run import .*seeds)" --include="test_*.py" --exclude-dir=spark tests)

help: ## this list
	@echo "kafkarec: Kafka's record batches in columns, without a broker"
	@awk -F ':.*## ' '/^[a-z0-9.-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile
	@echo "  DATA=/your/kafka-logs make demo    the demo on your own segments"
	@echo "  NO_INSTALL=1 make demo             stop if something is missing, install nothing"

demo: ## set everything up, build the wheelhouse, run the Spark job on real segments
	@sh tools/setup demo
	@$(ENV) $(PYTHON) tools/run_demo.py $(if $(DATA),'$(DATA)')

pipeline: ## set everything up, run examples/pipeline.py: real segments to typed tables and a quarantine
	@sh tools/setup demo
	@$(ENV) cd .work && SPARK_CONF_DIR=../examples/conf PYSPARK_DRIVER_PYTHON=$(CURDIR)/$(PYTHON) \
	    PYSPARK_PYTHON=$(CURDIR)/.venv-executor/bin/python ../.venv/bin/spark-submit --master 'local[2]' \
	    --py-files ../wheelhouse/spark_udfs-*.whl ../examples/pipeline.py pipeline
	@echo "the tables: .work/pipeline; again: make pipeline (nothing is added), anew: rm -r .work/pipeline"

test: ## set everything up and run every test (ARGS='-k name' to choose)
	@sh tools/setup test
	@$(ENV) sh tools/run_tests $(PYTHON) $(ARGS)

test-core: ## the fast tests of the C core: under a minute, no Java (ARGS='-k name' to choose)
	@sh tools/setup build
	@KAFKAREC_CORE=1 $(PYTHON) -m pytest -m core $(CORE_TESTS) $(ARGS)

mutants: ## small changes to the C core, one at a time: how many does test-core detect? (ARGS='--seed 2')
	@sh tools/setup build
	@KAFKAREC_CORE=1 $(PYTHON) tools/mutants.py $(CORE_TESTS) $(ARGS)

wheelhouse: ## fill wheelhouse/: kafkarec, its dependencies, the one spark_udfs wheel with all of it
	@sh tools/setup wheelhouse

aarch64: ## the wheels for aarch64 under qemu-user: bootstrap, vectors, odd inputs (Debian, Ubuntu)
python3.14: ## the same under CPython 3.14, from the next Debian's packages (Debian)
musl: ## the same for musl, under a CPython that is compiled for it (Debian)
aarch64 python3.14 musl:
	@sh tools/setup wheelhouse
	@sh tools/setup build
	@$(ENV) $(PYTHON) tools/other_pythons.py $@ $(ARGS)

release: ## sources, wheels for every platform, the spark_udfs wheel, checked, in dist/ (see RELEASING.md)
	@sh tools/setup release
	@$(ENV) $(PYTHON) tools/release.py $(ARGS)

build: ## compile kafkarec in place
	@sh tools/setup build

lint: ## ruff (rules and format), mypy, cython-lint; `ruff format` writes the format
	@sh tools/setup build
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m mypy kafkarec spark_udfs pyspark_kafkarec
	@.venv/bin/cython-lint kafkarec

instructions: ## instructions of decode per record, compared with benchmarks/instructions.json (ARGS=--write)
	@sh tools/setup build
	@$(PYTHON) benchmarks/instructions.py $(ARGS)

bench: ## kafkarec and its peers by size, headers, codec, ...; writes benchmarks/RESULTS.md, names the other benchmarks
	@sh tools/setup bench
	@! command -v mvn >/dev/null || tools/kafka_jars >/dev/null
	@$(ENV) $(PYTHON) benchmarks/run.py $(ARGS)

sparks: ## the older Sparks (3.5 to 4.2): fetches them, runs one application on each (LONG=1: more, and kills streams of 4.1)
	@sh tools/setup test
	@environments=$$($(PYTHON) tools/spark_versions.py) && \
	CI=1 $(if $(LONG),KAFKAREC_LONG=1) KAFKAREC_SPARK_ENVIRONMENTS=$$environments $(MAKE) test \
	    ARGS='$(addprefix tests/spark/test_,versions.py $(if $(LONG),stream_kills.py cause_first.py payloads.py)) -rP $(ARGS)'

damages: ## random damage to random logs, compared with what was written (ARGS='--count 100000 --seed 1')
	@sh tools/setup build
	@$(PYTHON) tools/damages.py $(ARGS)

fence: ## what users see, as it is now, into tests/fence/snapshot.xz and CHANGELOG.md (see tests/fence/README.md)
	@sh tools/setup build
	@$(PYTHON) tools/write_fence.py $(ARGS)

vectors: ## Kafka's classes judge the files of tests/vectors again: what differs (KAFKA=4.4.0)
	@sh tools/setup test
	@$(ENV) $(PYTHON) tools/vectors.py $(KAFKA)

fuzz: ## the property tests again and again, with many more examples, until one fails (MINUTES=10)
	@sh tools/setup test
	@$(ENV) end=$$(($$(date +%s) + 60 * $(or $(MINUTES),10))); while left=$$((end - $$(date +%s))) && [ $$left -gt 0 ]; do \
	    KAFKAREC_LONG=1 timeout --foreground $$left $(PYTHON) -m pytest -q $(PROPERTY_TESTS) $(ARGS) || { [ $$? = 124 ] || exit 1; }; \
	done; echo "fuzz: nothing found"

lock: ## write requirements/*.txt again (needs uv)
	@tools/lock.sh

docs: ## write the generated pages and build the site (build/docs/index.html), warnings fatal
	@sh tools/setup build
	@$(PYTHON) tools/make_docs.py
	@$(PYTHON) -m sphinx -n -W --keep-going -q -E -b html docs build/docs
	@echo "the site: build/docs/index.html"

clean: ## remove everything that was built, downloaded or generated, the environments too
	rm -rf .venv .venv-executor .venv-cross .venv-release .work .cache build dist wheelhouse/* *.egg-info kafkarec/_*.so kafkarec/_*.c spark_udfs/_trees docs/reference
	rm -rf .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
