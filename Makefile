# make demo    installs what is missing, builds, and runs a trained network on an image
# make test    installs what is missing, builds, and runs the tests
BUILD ?= build
JOBS ?= $(shell nproc)
CMAKE_FLAGS ?=
FUZZ_SECONDS ?= 60
# A second checkout finds what the first one compiled.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1

.PHONY: all setup demo test test-long install bench clean
all: setup
	@cmake -S . -B $(BUILD) -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DTILEWRIGHT_TESTS=OFF $(CMAKE_FLAGS) > /dev/null
	@cmake --build $(BUILD) -j $(JOBS)

setup:
	@scripts/setup.sh test

demo:
	@scripts/setup.sh demo
	@[ -e $(BUILD)/build.ninja ] || cmake -S . -B $(BUILD) -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DTILEWRIGHT_TESTS=OFF $(CMAKE_FLAGS) > /dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target tilewright_tool tilewright_library > $(BUILD)/log.txt || { cat $(BUILD)/log.txt; exit 1; }
	@BUILD=$(BUILD) .venv/bin/python examples/demo.py

test: setup
	@cmake -S . -B $(BUILD) -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DTILEWRIGHT_TESTS=ON $(CMAKE_FLAGS) > /dev/null
	@cmake --build $(BUILD) -j $(JOBS) > $(BUILD)/log.txt || { cat $(BUILD)/log.txt; exit 1; }
	@scripts/fuzz.sh $(FUZZ_SECONDS)
	@cd $(BUILD) && ctest --output-on-failure -j $(JOBS)

test-long:
	@scripts/setup.sh long
	@TILEWRIGHT_LONG=1 cmake -S . -B $(BUILD) -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DTILEWRIGHT_TESTS=ON $(CMAKE_FLAGS) > /dev/null
	@cmake --build $(BUILD) -j $(JOBS)
	@cd $(BUILD) && TILEWRIGHT_LONG=1 ctest --output-on-failure --timeout 7200

# A table of whole networks: ours, ONNX Runtime, and ours layer by layer.
bench: all
	@scripts/setup.sh test
	@.venv/bin/python bench/networks.py --tool $(BUILD)/tilewright --models $(BUILD)/models

install: all
	@cmake --install $(BUILD)

clean:
	@rm -rf $(BUILD)
