# gpuemu: build, checks and tests. `make test` is what CI runs; it needs Go, Python 3 with venv, git, OpenSSH's client
# programs (tests of signatures) and a C compiler (race detector only).

SHELL       := /bin/sh
GO          ?= go
STATICCHECK_VERSION := v0.8.2
TOOLS       := $(CURDIR)/.cache/bin
STATICCHECK := $(TOOLS)/staticcheck-$(STATICCHECK_VERSION)
VERSION     := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
FUZZTIME    ?= 30s
FUZZFLOOR   ?= 500
SOAK        ?= 100000
BIGSOAK     ?= 20
VACUITY     ?= 20
MUTANTS     ?= 10000000
ROWS        ?= 1000000
PROGRAMS    ?= 1000000
LAUNCHES    ?= 100000
FLIPS       ?= 1000
CRASHES     ?= 200
BENCHFLAGS  ?=
TIMEOUT     ?= 15m
# Packages tested at once, more than cores: many tests wait for processes and time-outs, and a core would wait with them.
PACKAGES    ?= 4
STEP        := sh tools/step.sh
PYVENV      := .cache/python-venv
PYTESTS     := pytest==9.2.0 pytest-xdist==3.8.0 pytest-rerunfailures==16.7 hypothesis==6.170.15
TRITON      := triton==3.6.0 numpy pytest==9.2.0 ml_dtypes==0.5.4
TRITONS     := 3.2.0 3.3.1 3.4.0 3.5.1 3.6.0 3.7.1 3.8.0 3.9.0
TRITON_WORK ?= .cache/triton-versions/work
FRAMEWORKS  := numpy==2.4.6 ml_dtypes==0.5.4 jax==0.10.2 onnx==1.23.2 onnxruntime==1.31.1
FRAMEWORKFLAGS ?=
NVCC        := nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96 \
	nvidia-cuda-cccl==13.0.85
# Python and NumPy versions of make python-versions; the oldest Python has a pytest of its own, the two oldest have no
# Hypothesis.
OLDPYTESTS  := :pytest==8.4.2:pytest-xdist==3.8.0
MIDPYTESTS  := :pytest==9.2.0:pytest-xdist==3.8.0
NEWPYTESTS  := :pytest==9.2.0:pytest-xdist==3.8.0:hypothesis==6.170.15
PYVERSIONS  := 3.9:1.26.4$(OLDPYTESTS) 3.9:2.0.2$(OLDPYTESTS) 3.10:1.26.4$(MIDPYTESTS) 3.10:2.2.6$(MIDPYTESTS) \
	3.11:1.26.4$(NEWPYTESTS) 3.11:2.4.6$(NEWPYTESTS) 3.12:1.26.4$(NEWPYTESTS) 3.12:2.5.5$(NEWPYTESTS) \
	3.13:2.5.5$(NEWPYTESTS) 3.14:2.5.5$(NEWPYTESTS)
PYVERSIONTESTS := $(addprefix python/tests/test_,arrays.py batches.py calling.py fuzz.py fuzz_op.py guard.py kernels.py \
	parts.py pytest_plugin.py results.py rng.py strategies.py tolerances.py validation.py)
PYPACKAGES  := numpy==2.4.6 ml_dtypes==0.5.4 jax==0.10.2 $(PYTESTS) mypy==2.4.1 pyright==1.1.414 nbclient==0.11.0 ipykernel==7.4.0 ruff==0.17.4 hatchling==1.33.0

# The toolchain on PATH is the one that is used: no silent download of another.
export GOTOOLCHAIN := local
# Go needs some place for its caches, also where a runner sets no HOME.
ifeq ($(HOME),)
export HOME := $(CURDIR)/.cache/home
endif

# What quick tests: the packages that most changes touch and that take seconds.
QUICKPACKAGES := diag dtype libm rng tensor gemm opspec compare gen invariant shrink verdict config formula launchfile \
	emulation escape ptx ptxvm cubin sass store report receipt wire nng cli
QUICKPYTHON := python/tests/test_arrays.py python/tests/test_rng.py python/tests/test_tolerances.py \
	python/tests/test_validation.py

.PHONY: all test quick test-all setup check unit race v3 purego python package test-torch test-tensorflow test-triton python-versions \
	frameworks device fuzz-quick fuzz soak soak-parsers soak-rows soak-emulator soak-store soak-crashes soak-launches evidence \
	evidence-vacuity evidence-faults \
	evidence-detection picture bench fixtures corpus triton-versions demo example \
	build generate clean

all: build

# All but what needs large installs or a GPU, from a fresh clone. The order is: what fails fastest comes first.
test: setup check unit race v3 purego python package fuzz-quick
	@echo "make test: ok"

# What to run before each commit: under a minute on two cores, with a warm build cache and after make setup. It is a
# part of make test; results of packages that did not change come from Go's test cache.
quick: build
	@$(STEP) "gofmt" sh tools/check-gofmt.sh
	@$(STEP) "go vet" $(GO) vet ./...
	@$(STEP) "repository tests" $(GO) test -count=1 ./internal
	@$(STEP) "go test -short" $(GO) test -short -p $(PACKAGES) $(addprefix ./internal/,$(QUICKPACKAGES))
	@$(STEP) "go test, oracle" $(GO) test -short -run 'Frozen|Catalogue|Bulk|Runs' ./internal/oracle
	@$(STEP) "go test, commands" $(GO) test -short -run 'TestScripts/(quick|config|emulate_softmax|run_notrun|oracle)$$' ./cmd/gpuemu
	@$(STEP) "pytest, numpy alone" .cache/numpy-venv/bin/python -m pytest -q -n 2 $(QUICKPYTHON)
	@echo "make quick: ok"

# make test, then what needs large installs: Triton, TensorFlow, Debian's python3-torch, and every version of Python.
test-all: test test-triton test-torch test-tensorflow python-versions
	@echo "make test-all: ok"

setup:
	@$(STEP) "go version" sh tools/require-go.sh
	@$(STEP) "ssh-keygen and ssh-agent" sh tools/require-ssh.sh
	@$(STEP) "go mod download" $(GO) mod download
	@$(STEP) "staticcheck $(STATICCHECK_VERSION)" $(MAKE) --no-print-directory $(STATICCHECK)
	@$(STEP) "python with numpy" sh tools/setup-python.sh
	@$(STEP) "published client" sh tools/setup-published.sh
	@$(STEP) "pytest-gpu-proof 0.1.0" sh tools/setup-original.sh
	@$(STEP) "python with numpy alone" sh tools/setup-venv.sh .cache/numpy-venv numpy,pytest,xdist,hypothesis numpy==2.4.6 $(PYTESTS)
	@$(STEP) "python with JAX and tools" sh tools/setup-venv.sh $(PYVENV) numpy,ml_dtypes,jax,pytest,mypy,hatchling,hypothesis,pyright,nbclient,ipykernel $(PYPACKAGES)

$(STATICCHECK):
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) GOFLAGS= $(GO) install honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK_VERSION)
	@mv $(TOOLS)/staticcheck $@

# Formatting, linters, module file, import direction, sizes, names, generated files. The last four are Go tests.
check: $(STATICCHECK)
	@$(STEP) "gofmt" sh tools/check-gofmt.sh
	@$(STEP) "go vet" $(GO) vet ./...
	@$(STEP) "staticcheck" $(STATICCHECK) ./...
	@$(STEP) "go mod tidy" $(GO) mod tidy -diff
	@$(STEP) "cross-build linux/arm64" env GOOS=linux GOARCH=arm64 CGO_ENABLED=0 $(GO) build ./...
	@$(STEP) "cross-build darwin/arm64" env GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 $(GO) build ./...
	@$(STEP) "repository tests" $(GO) test -count=1 ./internal

# All but the tests of the repository as a whole, which check runs.
unit:
	@$(STEP) "go test" $(GO) test -p $(PACKAGES) -timeout $(TIMEOUT) $$($(GO) list ./... | grep -v '/internal$$')

# A sample: -short, because the detector costs a factor of ten, and without the packages that start no goroutine. Tests
# of values alone skip themselves (testkit.ValuesOnly).
# Without GORACE every program of the command-line tests would sleep for a second at its end.
race:
	@command -v "$$($(GO) env CC)" >/dev/null || { \
		echo "the race detector needs a C compiler, and there is no $$($(GO) env CC): install gcc or clang" >&2; exit 1; }
	@CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 $(STEP) "go test -race" $(GO) test -race -short -p $(PACKAGES) -timeout $(TIMEOUT) \
		$$($(GO) list ./... | grep -vE '/internal$$|/(dtype|libm|testkit|project|ptx|ptxdiff|ptxmath|cubin|sass|pattern|artifact|gradient|receipt|policy|corpus|sshsig|forge|fingerprint|challenge|proof|gpu-proof)(/|$$)')

# The compiler may fuse x*y+z under GOAMD64=v3: every bit must stay as it is with v1 (docs/rationale.md).
v3:
	@$(STEP) "GOAMD64=v3" sh tools/amd64v3.sh

# The packages with assembly, once without it.
purego:
	@$(STEP) "go test -tags purego" $(GO) test -timeout $(TIMEOUT) -tags purego ./internal/dtype ./internal/gemm ./internal/compare ./internal/libm ./internal/rng ./internal/gen
	@$(STEP) "go test -tags purego, oracle" $(GO) test -timeout $(TIMEOUT) -tags purego -run 'Frozen|Bulk|Extent|Runs' ./internal/oracle
	@$(STEP) "go test -tags purego, emulator" $(GO) test -timeout $(TIMEOUT) -tags purego -short ./internal/ptxvm

# The Python packages: style, types, tests with numpy alone and with JAX on the CPU.
python: build
	@$(STEP) "ruff" $(PYVENV)/bin/ruff check -q --config python/pyproject.toml python bench tools internal/corpus/kernels examples/*_*
	@$(STEP) "mypy --strict" sh -c 'cd python && ../$(PYVENV)/bin/mypy && cd pytest-gpu-proof && ../../$(PYVENV)/bin/mypy'
	@$(STEP) "mypy --strict, corpus" sh -c 'cd tools/corpus && ../../$(PYVENV)/bin/mypy --config-file ../../python/pyproject.toml --python-version 3.11 build.py engine.py test_*.py'
	@$(STEP) "pytest, corpus" $(PYVENV)/bin/python -m pytest -q tools/corpus
	@$(STEP) "pytest, numpy alone" .cache/numpy-venv/bin/python -m pytest -q -n 2 python
	@$(STEP) "pytest, JAX" $(PYVENV)/bin/python -m pytest -q -n 2 python
	@$(STEP) "pytest, receipts" .cache/numpy-venv/bin/python -m pytest -q python/pytest-gpu-proof
	@$(STEP) "pytest, receipts, JAX" $(PYVENV)/bin/python -m pytest -q python/pytest-gpu-proof/tests/test_check.py

# The package as a user installs it, in an empty environment.
package:
	@$(STEP) "pip install, quick start" sh tools/test-package.sh

# The same tests with PyTorch: Debian's python3-torch, which has no CUDA and is small.
test-torch: build
	@/usr/bin/python3 -c "import torch" || { echo "install PyTorch first: apt-get install python3-torch" >&2; exit 1; }
	@PYTHON=/usr/bin/python3 VENV_FLAGS=--system-site-packages $(STEP) "python with torch" \
		sh tools/setup-venv.sh .cache/torch-venv torch,pytest pytest==9.2.0 ml_dtypes==0.5.4
	@$(STEP) "pytest with torch" .cache/torch-venv/bin/python -m pytest -q python
	@$(STEP) "pytest, receipts" .cache/torch-venv/bin/python -m pytest -q python/pytest-gpu-proof/tests/test_check.py

# The same tests with TensorFlow on the CPU; the install is large.
test-tensorflow: build
	@$(STEP) "python with TensorFlow" sh tools/setup-venv.sh .cache/tensorflow-venv tensorflow,pytest tensorflow-cpu==2.21.0 \
		pytest==9.2.0 ml_dtypes==0.5.4
	@$(STEP) "pytest with TensorFlow" .cache/tensorflow-venv/bin/python -m pytest -q python

# The tests that need no framework, with Python 3.9 to 3.14 and NumPy 1.26 and 2.x; the record is
# docs/evidence/python-versions.md. Interpreters are those of PATH and pyenv, and uv's; a version that cannot be had is a row
# that says so.
python-versions: build
	@$(STEP) "uv" sh tools/setup-venv.sh .cache/uv-venv uv uv==0.13.8
	@TESTS="$(PYVERSIONTESTS)" FLAGS="-n 2" sh tools/python-versions.sh docs/evidence/python-versions.md $(PYVERSIONS)

# CPU kernels of PyTorch (Debian's python3-torch), JAX and onnxruntime through the client, every op that they have; the
# record is docs/evidence/cpu-frameworks.md. About half an hour; FRAMEWORKFLAGS="--cases 5" is faster.
frameworks: build
	@/usr/bin/python3 -c "import torch" || { echo "install PyTorch first: apt-get install python3-torch" >&2; exit 1; }
	@PYTHON=/usr/bin/python3 VENV_FLAGS=--system-site-packages $(STEP) "python with torch" \
		sh tools/setup-venv.sh .cache/torch-venv torch,pytest pytest==9.2.0 ml_dtypes==0.5.4
	@$(STEP) "python with JAX and onnxruntime" sh tools/setup-venv.sh .cache/frameworks-venv numpy,jax,onnx,onnxruntime \
		$(FRAMEWORKS)
	.cache/torch-venv/bin/python bench/frameworks/controls.py run torch $(FRAMEWORKFLAGS)
	.cache/frameworks-venv/bin/python bench/frameworks/controls.py run jax $(FRAMEWORKFLAGS)
	.cache/frameworks-venv/bin/python bench/frameworks/controls.py run onnxruntime $(FRAMEWORKFLAGS)
	.cache/frameworks-venv/bin/python bench/frameworks/controls.py render docs/evidence/cpu-frameworks.md

# Triton kernels on the emulator: no GPU is needed, the install has 600 MB. With torch where Debian's is there.
test-triton: build
	@PYTHON=/usr/bin/python3 VENV_FLAGS=--system-site-packages $(STEP) "python with Triton" \
		sh tools/setup-venv.sh .cache/triton-venv triton,numpy,pytest $(TRITON)
	@$(STEP) "pytest with Triton" .cache/triton-venv/bin/python -m pytest -q python/tests/test_triton.py python/tests/test_emulation.py \
		python/tests/test_init.py python/tests/test_pages.py

# What needs a GPU, on a machine that has one; the records are docs/evidence/gpu-*.md.
device: build
	sh bench/device/run.sh

# Every target executes the same number of inputs however busy the machine is. One that executes fewer than FUZZFLOOR a
# second of CPU fails: it is made faster or replaced. Each has twice that on two cores of a small virtual machine.
fuzz-quick:
	@$(STEP) "fuzz, 2000 inputs per target" $(GO) run ./tools/fuzz -floor $(FUZZFLOOR) 2000x

# make fuzz FUZZTIME=10m
fuzz:
	@$(GO) run ./tools/fuzz $(FUZZTIME)

# Honest implementations against the bounds, SOAK cases per op and dtype; the record is docs/evidence/soak.md. Then the
# second, naive reference, BIGSOAK times as many cases as make test has.
soak:
	@mkdir -p docs/evidence
	GPUEMU_SOAK=$(SOAK) GPUEMU_SOAK_RECORD=$(CURDIR)/docs/evidence/soak.md \
		$(GO) test -count=1 -timeout 0 -run TestHonestImplementationsKeepTheBound ./internal/oracle
	GPUEMU_SOAK=$(BIGSOAK) $(GO) test -count=1 -timeout 0 -run Bigref ./internal/oracle

# Mutated PTX modules and cubins, MUTANTS of each: no panic, no hang, no unbounded memory.
soak-parsers:
	GPUEMU_SOAK=$(MUTANTS) $(GO) test -count=1 -timeout 0 -v -run TestMutated ./internal/ptx ./internal/cubin

# Rows of the emulator against big numbers and against what an H200 recorded, with ROWS random operands each; the
# record is docs/evidence/emulator-rows.md.
soak-rows:
	GPUEMU_SOAK=$(ROWS) $(GO) test -count=1 -timeout 0 -v -run 'TestRows$$|TestRecorded(Forms|Approx|Products)' \
		./internal/ptxvm | grep -v '^=== \|^ *--- PASS: .*/'

# Random programs and changed kernels, PROGRAMS of them: no panic, no hang, no limit that is passed.
soak-emulator:
	GPUEMU_SOAK=$(PROGRAMS) $(GO) test -count=1 -timeout 0 -v -run TestRandomPrograms ./internal/ptxvm

# FLIPS single bits of a store, flipped one at a time in its database, log and tensors: no answer changes silently.
soak-store:
	GPUEMU_SOAK=$(FLIPS) $(GO) test -count=1 -timeout 0 -v -run TestFlippedBits ./internal/store

# A campaign whose workers, daemon or own process are killed CRASHES times: its results are those of an undisturbed one.
soak-crashes:
	GPUEMU_SOAK=$(CRASHES) $(GO) test -count=1 -timeout 0 -v -run 'TestCrash$$' ./cmd/gpuemu

# Launches of changed kernels through a daemon that the system gives 4 GiB, LAUNCHES of them: it answers each one.
soak-launches:
	GPUEMU_SOAK=$(LAUNCHES) $(GO) test -count=1 -timeout 0 -v -run TestMutatedLaunches ./cmd/gpuemu

# What the bounds detect and fixed tolerances do not; the record is docs/evidence/detection.md. What counts and the
# semantic diff tell of changed kernels; the record is docs/evidence/artifacts-diff.md.
evidence:
	GPUEMU_DETECTION_RECORD=$(CURDIR)/docs/evidence/detection.md \
		$(GO) test -count=1 -timeout 0 -run TestRecordDetection ./internal/oracle
	$(GO) test -count=1 -run TestDiffEvidence ./internal/ptxdiff -update
	$(GO) test -count=1 -run 'TestZooEvidence|TestChecksEvidence' ./internal/ptxvm -update

# What garbage would pass, VACUITY cases per op, dtype and distribution and ten times as many mixed ones; the record is
# docs/evidence/vacuity.md.
evidence-vacuity:
	GPUEMU_VACUITY=$(VACUITY) GPUEMU_VACUITY_RECORD=$(CURDIR)/docs/evidence/vacuity.md \
		$(GO) test -count=1 -timeout 0 -run TestGarbageDoesNotPass ./internal/oracle
# Kernels with small faults, judged as a campaign judges them; the record is docs/evidence/subtle-faults.md.
evidence-faults:
	GPUEMU_SUBTLE_RECORD=$(CURDIR)/docs/evidence/subtle-faults.md \
		$(GO) test -count=1 -timeout 0 -run TestSubtleFaults ./internal/campaign

# The pages, pictures and README's table of the detection study, of the committed records; the study itself is
# bench/detection.
evidence-detection:
	$(GO) run ./bench/detection/report

# The picture of the demo in the README: a recording of a real run, the last screen of a terminal that is wide enough.
picture: build
	@mkdir -p .cache docs/images
	PATH="$(CURDIR)/bin:$$PATH" TERM=xterm-256color script -qec "stty cols 180 rows 55; gpuemu demo" /dev/null \
		>.cache/demo.typescript
	$(GO) run ./tools/termsvg -columns 180 -rows 55 -title "gpuemu demo" -o docs/images/demo.svg <.cache/demo.typescript

# The parts against numpy, the engine, the client. make bench BENCHFLAGS="engine -run daemon": one table, with flags.
bench:
	@sh bench/run.sh $(BENCHFLAGS)

# The compiled kernels of testdata/ptx that need no GPU, by clang 14, 16, 19 and 22; bench/device/artifacts.sh makes the
# others.
fixtures:
	@sh tools/make-fixtures.sh

# The kernels of internal/corpus and their mutants, compiled by Triton and nvcc; no GPU is needed, the installs have
# 900 MB. make corpus KERNELS="softmax_row": some of them; mutants that did not change are in .cache/corpus.
corpus:
	@PYTHON=/usr/bin/python3 VENV_FLAGS=--system-site-packages $(STEP) "python with Triton" \
		sh tools/setup-venv.sh .cache/triton-venv triton,numpy,pytest $(TRITON)
	@$(STEP) "nvcc" sh tools/setup-venv.sh .cache/nvcc-venv nvidia $(NVCC)
	.cache/triton-venv/bin/python tools/corpus/build.py $(KERNELS)
	.cache/triton-venv/bin/python tools/corpus/engine.py

# Triton kernels by every minor version of Triton, on the emulator; the record is docs/evidence/triton-versions.md. Some
# twenty minutes, and installs of 2 GB a version that are made once; TRITON_VENVS names a folder of ready ones, tVERSION.
triton-versions: build
	@sh bench/triton-versions/run.sh $(TRITON_WORK) $(TRITONS)
	$(GO) run ./bench/triton-versions -dir $(TRITON_WORK) -record docs/evidence/triton-versions.md $(TRITONS)

# What it finds, on kernels that are part of the program: no GPU, no Python, no network.
demo: build
	@bin/gpuemu demo

# The main job on the example project.
example: build
	@$(STEP) "python with numpy" sh tools/setup-python.sh
	GPUEMU_PYTHON=$(CURDIR)/.cache/venv/bin/python bin/gpuemu ci --quick --config examples/numpy/gpuemu.toml

build:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/ ./cmd/...

# Rewrites generated code, generated pages of docs/ and the examples of the README.
generate:
	$(GO) generate ./...
	$(GO) test -count=1 ./internal -run Page -update
	$(GO) test -count=1 ./internal/ptxvm -run Page -update
	$(GO) test -count=1 ./internal/policy -run Page -update
	$(GO) test -count=1 ./cmd/gpuemu -run 'Readme|Page' -update

clean:
	rm -rf bin .cache
