# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: demo test test-long test-browser test-cluster test-data cluster screenshots exactness additive portable torture torture-cluster fuzz generated-client load image test-image style lint format bench results docs dist clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP)  ## the main job: every system learns the digits, forgets, and is compared with its clean room
	$(BIN)/cause demo --plot out/demo.png
	$(BIN)/cause compare --seeds 5

# compiled modules are kept, whatever is set outside: the tests start hundreds of processes
PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -p tests.forked_workers \
	--workers $(shell $(PYTHON) -c 'import os; print(3 * (os.cpu_count() or 1))')

# style and types are checked beside the tests: without its cache mypy takes half a minute of one processor
test: $(STAMP)  ## everything a change must pass
	@mkdir -p out
	@$(MAKE) --no-print-directory lint >out/lint.txt 2>&1 & lint=$$!; \
	$(PYTEST); tested=$$?; \
	wait $$lint; linted=$$?; cat out/lint.txt; exit $$((tested | linted))

test-long: $(STAMP)  ## all tests, also those that take long
	$(PYTEST) --long

test-browser: $(STAMP)  ## the dashboard in Debian's Chromium; fails where there is none, which `make test` skips
	CAUSE_BROWSER=required $(BIN)/python -m pytest --long tests/browser

cluster: $(STAMP)  ## three Ray nodes on this machine, with a token, until Ctrl-C
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[ray]'
	$(BIN)/python -m tests.executors.cluster.nodes

test-cluster: $(STAMP)  ## trainings on three Ray nodes of this machine
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[ray]'
	CAUSE_RAY=required $(BIN)/python -m pytest tests/executors/cluster

test-data: $(STAMP)  ## read the data sets in $CAUSE_DATA
	@test -n "$$CAUSE_DATA" || { echo "name the folder with the data sets: make test-data CAUSE_DATA=folder"; exit 2; }
	$(BIN)/python -m pytest tests/data/test_real_datasets.py -rs

exactness: $(STAMP)  ## every combination of preset, learner, requests, workers, storage … beside its clean room
	$(BIN)/python -m tests.exactness

additive: $(STAMP)  ## 100,000 random lives of an additive learner beside their clean rooms, from scratch
	$(BIN)/python -m tests.learners.additive.cases --cases 100000

portable: $(STAMP)  ## one digest of an additive learner's state on several kernels, and on aarch64 by qemu-user
	$(BIN)/python -m tests.portable

torture: $(STAMP)  ## kill, cut the power, fill the disk and go on, thousands of times
	$(BIN)/python -m tests.torture --kills 2000 --states 400 --reopen-states 2000 --images 300 --writes --reads \
		--processes 60 --full-disk --old-states 60 --guesses 2 --flips 1000 \
		--migrations 100
	$(BIN)/python -m pytest tests/torture --long --hypothesis-profile deep

torture-cluster: $(STAMP)  ## 1,000 forgets among trainings on three Ray nodes that are killed, stopped and cut off; needs root
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[ray]'
	$(BIN)/python -m pytest --long tests/torture_cluster
	$(BIN)/python -m tests.torture_cluster --forgets 1000

fuzz: $(STAMP)  ## schemathesis over the whole schema of the service, with all checks
	$(BIN)/python -m tests.service.fuzz --examples 200

# in an environment of its own: the generator and this project pin different versions of the same packages
generated-client: $(STAMP)  ## a client made by openapi-python-client from the schema, used on a real service
	$(PYTHON) -m venv out/codegen
	out/codegen/bin/python -m pip install --quiet --disable-pip-version-check 'openapi-python-client>=0.24,<1'
	CAUSE_CODEGEN=out/codegen/bin/openapi-python-client $(BIN)/python -m pytest tests/service/test_generated_client.py -rs

load: $(STAMP)  ## 64 clients while a round trains, and 50 kills of a service in use
	$(BIN)/python -m tests.service.load --clients 64 --seconds 20 --kills 50

# A client of docker may be there without its engine. podman and buildah leave HEALTHCHECK out of other formats.
image:  ## the container image `cause`; BUILD='--build-arg EXTRAS=serve,sklearn,torch' and such go to the engine
	@if docker info >/dev/null 2>&1; then docker build -t cause $(BUILD) .; \
	elif command -v podman >/dev/null; then podman build --format docker -t cause $(BUILD) .; \
	elif command -v buildah >/dev/null; then buildah bud --format docker -t cause $(BUILD) .; \
	else echo "an image is built by docker, podman or buildah: install and start one of them" >&2; exit 2; fi

ENGINE ?= $(shell if docker info >/dev/null 2>&1; then echo docker; else command -v podman; fi)
test-image: $(STAMP)  ## run the image with its limits: learn, forget, stop, start; RUN='--ulimit …' goes to the engine
	@test -n "$(ENGINE)" || { echo "an image is run by docker or podman: install and start one of them" >&2; exit 2; }
	$(BIN)/python -m tests.service.image --engine "$(ENGINE)" --options "$(RUN)"

style: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

lint: style  ## style and types
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)  ## speed and growth, as tables
	$(BIN)/python -m benchmarks

results: $(STAMP)  ## measure anew what README and docs/RESULTS.md show
	$(BIN)/cause compare --seeds 30 --sweep shards=1,2,4,8,16 --out results/compare.json --plot docs/figures/compare.png
	$(BIN)/cause ablate --seeds 30 --out results/ablation.json --plot docs/figures/ablation.png
	$(BIN)/cause balance --seeds 30 --out results/balance.json --plot docs/figures/balance.png
	$(BIN)/cause reproduce rsn-rounds rsn-memory rsn-rho rsn-shards controller policies partitions energy-shards energy-rho \
		map-fibor map-controller --reduced --only kind=count,map --workers 2 --out results/reproduce
	$(BIN)/python -m cause.lab.report

screenshots: $(STAMP)  ## take the pictures in docs/dashboard.md anew
	$(BIN)/python -m tests.browser.screenshots docs/figures

docs: $(STAMP)  ## write the command reference anew from --help, and build the pages into out/site
	PYTHONIOENCODING=utf-8 $(BIN)/python -m cause.cli.reference > docs/cli.md
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "open out/site/index.html"

dist: $(STAMP)  ## wheel and source archive, checked; a device is run from the wheel in a clean environment
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dist]'
	$(BIN)/python -m tests.dist

clean:
	rm -rf $(VENV) out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
