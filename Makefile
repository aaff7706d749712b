# fpbtree: see README.md. `make help` lists what there is.

# The PostgreSQL to build for. Where none is named, that of pg_config is used, or else Debian's own installed.
ifeq ($(origin PG_CONFIG), undefined)
PG_CONFIG := pg_config
SERVER := postgresql
endif

NEEDED := gcc libc6-dev clang libclang-dev python3 rust $(SERVER)
BENCH_NEEDED := python3-psycopg2 python3-matplotlib

# Shells put the terminal's width into COLUMNS: only what is said to make itself counts.
MATRIX := $(foreach kind,$(KINDS),--kind $(kind)) $(if $(FRESH),--fresh) \
	$(if $(filter command,$(origin COLUMNS)),$(foreach column,$(COLUMNS),--column $(column)))
BENCH := bench/run --pg-config $(PG_CONFIG) $(if $(FULL),--full) $(foreach figure,$(FIGURE),--figure $(figure)) $(MATRIX)
# What is no name of the extension's own figures is one of the lab's, or wrong, and then the lab's are listed, too.
OF_LAB = $(if $(FIGURE),$(filter-out $(shell bench/run --names),$(FIGURE)),all)

FOLDER := build/image
VERSION = $(shell sed -n 's/^version = "\(.*\)"$$/\1/p' Cargo.toml)

.PHONY: help packages test-packages client-packages bench-packages locales install lab test test-matrix torture valgrind \
	demo bench bench-readme deb dist image-folder clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "PG_CONFIG=/path/to/pg_config chooses another PostgreSQL."

packages:
	@scripts/need $(NEEDED)

test-packages: locales
	@scripts/need $(NEEDED) $(BENCH_NEEDED) perl libipc-run-perl clippy

client-packages: packages
	@scripts/need python3-psycopg2

bench-packages: packages
	@scripts/need $(BENCH_NEEDED)

install: packages ## build the extension and install it into PostgreSQL
	scripts/install-extension $(PG_CONFIG)

test: test-packages ## formatting, lints, and every test on the PostgreSQL at hand
	scripts/test $(PG_CONFIG)

test-matrix: ## the extension's tests on PostgreSQL 16, 17 (with debug assertions), 18 and 19, in Debian roots of their own
	scripts/matrix

torture: client-packages install
torture: ## crash, recover, check, again and again, for three minutes; HOURS=0.5 for longer, SEED= repeats
	scripts/torture --pg-config $(PG_CONFIG) $(if $(HOURS),--hours $(HOURS)) $(if $(SEED),--seed $(SEED))

valgrind: install ## scans, inserts, VACUUM and redo under valgrind's memcheck, in a few minutes
	@scripts/need valgrind
	scripts/valgrind $(PG_CONFIG)

demo: client-packages install ## fpbtree beside btree on pgbench's accounts, in under three minutes
	scripts/demo $(PG_CONFIG)

lab: packages ## build what measures the papers' structures, target/release/fpbtree-lab
	@scripts/need libabsl-dev g++ || echo "without them, Abseil's B-tree is left out"
	scripts/build-lab

locales:
	@locale -a | grep -qix 'en_us\.utf-\?8' || { scripts/need locales && localedef -i en_US -f UTF-8 en_US.UTF-8; } \
		|| echo "without en_US.UTF-8, tests of such texts and the matrix's kinds of that name are left out"

bench: bench-packages install locales
bench: ## the papers' figures, then fpbtree beside btree: bench/out/report.html; FULL=1 for full size, FIGURE=NAME for one
	@$(if $(OF_LAB),$(MAKE) --no-print-directory lab)
	@$(BENCH)

bench-readme: bench-packages ## the matrix of the last full run into README.md (make bench FIGURE=matrix FULL=1)
	@bench/run --readme

deb: ## Debian packages for PostgreSQL 15, 17 and 18, made in Debian roots of their own
	scripts/deb

dist: ## the last commit as an archive for PGXN
	mkdir -p build
	git archive --format zip --prefix fpbtree-$(VERSION)/ --output build/fpbtree-$(VERSION).zip HEAD

image-folder: packages ## what is installed, as a folder that PostgreSQL 18 and images of extensions take; FOLDER=build/image
	scripts/image-folder $(FOLDER) $(PG_CONFIG)

clean: ## remove what was built, the test roots included
	cargo clean
	scripts/root --delete
	rm -rf bench/out build
