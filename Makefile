# txonce: what one can do here. `make` or `make help` lists it.
#
# Each target does its own set-up: with Go, make and git at hand, nothing has to be installed by hand where the system's
# package manager may be used (scripts/setup.sh says what it installs, or what to do).

GO       ?= go
BIN      := $(CURDIR)/.bin
PACKAGES := ./...
MODULES  := ./integration/... ./examples/reports/... ./outbox/watermillpub/...
# Those with servers of their own, which are killed and frozen, run in `make suites`.
SUITES   := /integration/(faults|failover|versions)$$
WITHPG   := $(GO) run ./internal/devpg/withpg --

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## See an agent retry over a network that loses answers (SEED=n repeats the traffic, UNPROTECTED=1 goes without the library)
	@sh scripts/setup.sh
	@$(GO) build -o $(BIN)/quickstart ./examples/quickstart
	@$(BIN)/quickstart $(if $(SEED),-seed $(SEED)) $(if $(UNPROTECTED),-unprotected)

.PHONY: example-reports
example-reports: ## See reports that take 20 s come out once, whichever process you kill (KILL=1 kills for you; ORDERS=n, TAKES=5s; River UI on a local port)
	@sh scripts/setup.sh
	@$(GO) build -o $(BIN)/reports ./examples/reports
	@$(BIN)/reports $(if $(ORDERS),-orders $(ORDERS)) $(if $(TAKES),-takes $(TAKES)) $(if $(KILL),-kill)

.PHONY: test
test: ## Run the tests of all modules but those of `make suites` that have servers of their own, race detector on, and say which Postgres they use (SHORT=1: fewer rounds of what is random or long, and integration/ without the race detector, as .ci/run does)
	@sh scripts/setup.sh race
	@sh scripts/setup.sh broker || echo "the tests with a broker will be skipped"
	packages=$$($(GO) list $(PACKAGES) ./examples/reports/... ./outbox/watermillpub/...) && \
		programs=$$($(GO) list ./integration/... | grep -vE '$(SUITES)') && status=0 && \
		{ $(WITHPG) $(GO) test -race $(if $(SHORT),-short )-timeout 40m $$packages || status=1; } && \
		{ $(WITHPG) $(GO) test $(if $(SHORT),-short,-race) -timeout 40m $$programs || status=1; } && exit $$status

.PHONY: test-pooler
test-pooler: ## Run the tests of the core, of jobs and of the outbox in pgx's other exec modes, directly and through pgbouncer, on the newest server at hand (long; QUICK=1: the shorter tests; RACE=1: race detector on)
	@sh scripts/setup.sh pooler
	@$(GO) build -o $(BIN)/suites ./integration/suites
	$(BIN)/suites -core -places newest $(if $(QUICK),-quick) $(if $(RACE),-race) -ways exec,cache_describe,simple_protocol,pgbouncer/exec,pgbouncer/cache_describe,pgbouncer/simple_protocol

.PHONY: suites
suites: ## Run the core on every Postgres at hand in every way to execute, and the suites of integration/ that kill, freeze, fill and promote servers (QUICK=1: one Postgres, one way and three packages, drawn anew each time, and the shorter tests; ARGS="-own", "-places 17 -ways default ./txidem")
	@sh scripts/setup.sh race # its compiler makes clocks that are wrong
	@sh scripts/setup.sh pooler
	@sh scripts/pg-image.sh || [ $$? -eq 3 ]
	@$(GO) build -o $(BIN)/suites ./integration/suites
	$(BIN)/suites $(if $(QUICK),-quick) $(if $(RACE),-race) $(ARGS)

.PHONY: pg-image
pg-image: ## Get the container images of Postgres 15 and 17 that the suites of integration/ run on: from a registry, else out of Debian's packages (a minute)
	@sh scripts/pg-image.sh

.PHONY: crash
crash: ## Kill processes at every step of a call, N=300 times, and count effects (MODE=run|tx|batch|leased, default all; PLANT=1 plants a fault and must fail)
	@sh scripts/setup.sh
	@$(GO) build -o $(BIN)/crash ./integration/crash
	@$(BIN)/crash $(if $(N),-n $(N)) $(if $(MODE),-mode $(MODE)) $(if $(SEED),-seed $(SEED)) $(if $(PLANT),-plant $(PLANT))

.PHONY: crash-jobs
crash-jobs: ## Kill workers and tool servers at every step of a job, N=200 times, count effects, and say how soon jobs go on (about 90 s; PLANT=1 plants a fault and must fail)
	@sh scripts/setup.sh
	@$(GO) build -o $(BIN)/crashjobs ./integration/crashjobs
	@$(BIN)/crashjobs $(if $(N),-n $(N)) $(if $(SEED),-seed $(SEED)) $(if $(PLANT),-plant $(PLANT))

.PHONY: model
model: ## Check the models of claim, lease, job and ordering key exhaustively with Spin, and that it finds a counterexample when a guard is taken out (half a minute)
	@sh scripts/setup.sh model
	@sh scripts/model.sh

.PHONY: crash-outbox
crash-outbox: ## Kill tool servers and relays at every step of a message, N=60 times, and compare what arrives with a ledger (about 80 s; PLANT=1 plants a fault and must fail)
	@sh scripts/setup.sh
	@$(GO) build -o $(BIN)/crashoutbox ./integration/crashoutbox
	@$(BIN)/crashoutbox $(if $(N),-n $(N)) $(if $(SEED),-seed $(SEED)) $(if $(PLANT),-plant $(PLANT))

.PHONY: chaos
chaos: ## Kill servers, workers, relays and Postgres at random for T=5m while agents call, and judge the answers as a history (once more T, or two minutes, where too little was killed in it; then up to 90 s until all is settled; PLANT=1 plants a fault and must fail)
	@sh scripts/setup.sh
	@$(GO) build -o $(BIN)/chaos ./integration/chaos
	@$(BIN)/chaos $(if $(T),-time $(T)) $(if $(SEED),-seed $(SEED)) $(if $(PLANT),-plant $(PLANT))

.PHONY: bench
bench: ## Say what protection costs, as ratios to a bare transaction in the same run (about five minutes)
	@sh scripts/setup.sh
	@$(GO) build -o $(BIN)/bench ./integration/bench
	@$(BIN)/bench

.PHONY: bench-edges
bench-edges: ## Say what the adapters add to a call, on a store without Postgres (half a minute)
	$(GO) test -run '^$$' -bench . -benchtime 20000x -count 3 ./txidem/mcpidem ./txidem/httpidem

.PHONY: bench-jobs
bench-jobs: ## Say how jobs compare with plain River, and what submitting one adds to a call (about two minutes)
	@sh scripts/setup.sh
	@$(GO) build -o $(BIN)/bench ./integration/bench
	@$(BIN)/bench jobs

.PHONY: bench-status
bench-status: ## Say how many can ask for status in a second, and how soon 1,000 who wait hear of an end (about a minute; ARGS="-waiters 5000 -ends 200")
	@sh scripts/setup.sh
	@$(GO) build -o $(BIN)/bench ./integration/bench
	@$(BIN)/bench status $(ARGS)

.PHONY: bench-outbox
bench-outbox: ## Say how many messages a second go from call to receiver, how soon, and what publishing adds to a call (12 minutes on a busy machine; BLOAT=10m: under a snapshot held so long, 13 minutes; ARGS="-rounds 2 -concurrency 16")
	@sh scripts/setup.sh
	@$(GO) build -o $(BIN)/bench ./integration/bench
	@$(BIN)/bench outbox $(if $(BLOAT),-bloat $(BLOAT)) $(ARGS)

.PHONY: bench-peers
bench-peers: ## Say how calls compare with DBOS Go, and jobs with plain River, on the same work in the same run (about two minutes; ARGS="-rounds 7")
	@sh scripts/setup.sh
	@$(GO) build -o $(BIN)/bench ./integration/bench
	@$(BIN)/bench peers $(ARGS)

.PHONY: soak
soak: ## Keep a process that makes calls, jobs and messages under steady load for T=1h, and fail if memory, goroutines, sessions or tables grow (RATE=300 calls a second)
	@sh scripts/setup.sh
	@$(GO) build -o $(BIN)/bench ./integration/bench
	@$(BIN)/bench soak $(if $(T),-time $(T)) $(if $(RATE),-rate $(RATE))

.PHONY: bench-growth
bench-growth: ## Say what calls cost on tables of 10^4 to 10^7 records, and the sweeper (long: 13 minutes on a busy machine, needs 13 GB of disk free; ARGS="-sizes 1e4,1e6 -time 20s": 90 s)
	@sh scripts/setup.sh
	@$(GO) build -o $(BIN)/bench ./integration/bench
	@$(BIN)/bench growth $(ARGS)

.PHONY: which-pg
which-pg: ## Say which Postgres tests and demos would use
	@$(GO) run ./internal/devpg/withpg

.PHONY: lint
lint: $(BIN)/staticcheck $(BIN)/gofumpt ## Check format and code: gofumpt, go vet, staticcheck, go mod tidy
	@unformatted=$$($(BIN)/gofumpt -l .); [ -z "$$unformatted" ] || { echo "run 'make fmt' for:"; echo "$$unformatted"; exit 1; }
	$(GO) vet $(PACKAGES) $(MODULES)
	$(BIN)/staticcheck $(PACKAGES) $(MODULES)
	GOWORK=off $(GO) mod tidy -diff
	GOWORK=off $(GO) -C integration mod tidy -diff
	GOWORK=off $(GO) -C examples/reports mod tidy -diff
	GOWORK=off $(GO) -C outbox/watermillpub mod tidy -diff
	GOWORK=off $(GO) -C tools mod tidy -diff

.PHONY: fmt
fmt: $(BIN)/gofumpt ## Format the code
	$(BIN)/gofumpt -w .

.PHONY: fuzz
fuzz: ## Fuzz each parser for T=30s
	@for p in canonjson keyheader; do for f in $$(grep -hoE '^func Fuzz[A-Za-z]+' internal/$$p/*_test.go | cut -c6-); do \
		$(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(or $(T),30s) ./internal/$$p || exit 1; done; done

.PHONY: clean
clean: ## Remove what was built
	rm -rf $(BIN)

$(BIN)/staticcheck $(BIN)/gofumpt: tools/go.mod tools/go.sum
	GOWORK=off $(GO) -C tools build -o $(BIN)/ honnef.co/go/tools/cmd/staticcheck mvdan.cc/gofumpt
