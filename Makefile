# Everything a newcomer needs: `make demo`, then `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# one thread each, so that parallel test workers do not fight over the cores
export OMP_NUM_THREADS ?= 1

.PHONY: demo test browser notebooks check types clean

# what the embedded models write as it comes: seed 1 throughout, and nothing chosen
demo: $(VENV)/demo
	$(BIN)/suite run lm "The university was founded in" -n 60 --stop . --seed 1
	$(BIN)/suite next "The Second World" -k 10
	$(BIN)/suite run translate "The dog is sleeping under the table." --from en --to de
	$(BIN)/suite run translate "Wo ist der Bahnhof?" --from de --to en
	$(BIN)/suite run summarize data/samples/timor.txt --sentences 2
	$(BIN)/suite run classify "The violin is a string instrument, tuned in fifths and played with a bow."
	$(BIN)/suite run music --seconds 10 --seed 1 -o demo.mid --wav demo.wav --plot demo.png

# a file's tests stay in one process, where they share what they trained; the modules' examples are tests too
test: $(VENV)/test
	$(BIN)/pytest -n 2 --dist loadgroup --no-loadscope-reorder --doctest-modules tests suite tasks data

# the page of `suite explore` in Debian's Chromium (apt-get install chromium); skipped where there is none
browser: $(VENV)/test
	$(BIN)/pytest -m browser -rs tests/suite/explore/test_page.py

notebooks: $(VENV)/test
	$(BIN)/pytest -m notebook tests/test_notebooks.py

check: $(VENV)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(MAKE) types

# mypy cannot see that the folder data/ is suite.data, so it checks the package as it installs.
types: $(VENV)/test
	rm -rf build/lib build/types && $(BIN)/pip install -q --no-deps --target build/types .
	MYPYPATH=build/types $(BIN)/mypy -p suite

$(VENV)/demo: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e .
	touch $@

$(VENV)/test: $(VENV)/demo
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e ".[test]" -e examples/reverse
	touch $@

clean:
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache
