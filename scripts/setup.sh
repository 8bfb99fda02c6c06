#!/bin/sh
# Makes sure that tests and demos can have a Postgres, and says nothing if they
# already can.
#
#   scripts/setup.sh          a server: one named by TXONCE_TEST_DATABASE_URL or
#                             DATABASE_URL, or server binaries (14 or newer)
#   scripts/setup.sh race     the same, and a C compiler for `go test -race`
#   scripts/setup.sh pooler   the same as without an argument, and pgbouncer
#   scripts/setup.sh model    no server, but Spin and a C compiler
#   scripts/setup.sh broker   the same as without an argument, and nats-server
#
# It installs with the package manager when it may do so (root, or sudo without
# a password). The server is only unpacked: no database cluster is made, nothing
# is started. An ordinary user who may not install gets exit status 0 and advice,
# because the tests can still download a server for themselves; the exit status
# is 1 when that cannot help.
set -eu

min=14

say() { printf 'setup: %s\n' "$*" >&2; }

fail() {
	say "$*"
	exit 1
}

# usable DIR: does DIR hold a server that is new enough?
usable() {
	[ -x "$1/postgres" ] && [ -x "$1/initdb" ] || return 1
	version=$("$1/postgres" --version 2>/dev/null) || return 1
	version=${version##*"(PostgreSQL) "}
	major=${version%%[!0-9]*}
	[ -n "$major" ] && [ "$major" -ge "$min" ]
}

# have_server looks where package devpg looks: PATH, then the usual folders.
have_server() {
	old_ifs=$IFS
	IFS=:
	set -f
	for dir in $PATH; do
		[ -x "$dir/postgres" ] || continue
		# A link leads to the folder that has the rest of the server.
		link=$(readlink -f "$dir/postgres" 2>/dev/null) || link=$dir/postgres
		if usable "$(dirname "$link")"; then
			IFS=$old_ifs
			set +f
			return 0
		fi
	done
	IFS=$old_ifs
	set +f
	for dir in /usr/lib/postgresql/*/bin /usr/lib/postgresql[0-9]*/bin \
		/usr/libexec/postgresql[0-9]* /usr/pgsql-*/bin \
		/opt/homebrew/opt/postgresql*/bin /usr/local/opt/postgresql*/bin \
		/usr/local/pgsql/bin /Applications/Postgres.app/Contents/Versions/*/bin; do
		if usable "$dir"; then return 0; fi
	done
	return 1
}

have_postgres() {
	[ -n "${TXONCE_TEST_DATABASE_URL:-}" ] || [ -n "${DATABASE_URL:-}" ] || have_server
}

# have_compiler: does the compiler that Go would call work, and has it headers?
have_compiler() {
	cc=$(go env CC 2>/dev/null) || cc=
	[ -n "$cc" ] || cc=${CC:-gcc}
	# Unquoted: CC may hold arguments.
	# shellcheck disable=SC2086
	printf '#include <stdlib.h>\nint main(void) { return 0; }\n' |
		$cc -x c -fsyntax-only - >/dev/null 2>&1
}

# as_root COMMAND...: run it as root, if need be through sudo.
as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	else
		sudo -n "$@"
	fi
}

may_be_root() {
	[ "$(id -u)" -eq 0 ] || { command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; }
}

# manager prints the package manager that we may use; nothing if there is none.
manager() {
	if command -v apt-get >/dev/null 2>&1; then
		may_be_root && echo apt
	elif command -v dnf >/dev/null 2>&1; then
		may_be_root && echo dnf
	elif command -v apk >/dev/null 2>&1; then
		may_be_root && echo apk
	elif command -v brew >/dev/null 2>&1; then
		[ "$(id -u)" -ne 0 ] && echo brew # brew refuses root
	fi
	return 0
}

# server_package MANAGER, compiler_packages MANAGER: what to install.
server_package() {
	case $1 in
	dnf) echo postgresql-server ;;
	brew) echo postgresql@17 ;;
	*) echo postgresql ;;
	esac
}

compiler_packages() {
	case $1 in
	apt) echo gcc libc6-dev ;;
	dnf) echo gcc glibc-devel ;;
	apk) echo gcc musl-dev ;;
	brew) echo gcc ;;
	esac
}

apt_updated=
apt_update() {
	[ -z "$apt_updated" ] || return 0
	say "updating the package lists"
	as_root apt-get update >&2 || say "apt-get update failed; going on with the lists that are there"
	apt_updated=yes
}

# install MANAGER PACKAGE...: progress goes to standard error.
install() {
	with=$1
	shift
	say "installing $* with $with"
	case $with in
	apt)
		apt_update
		as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
			-o Dpkg::Options::=--force-confold "$@" >&2
		;;
	dnf) as_root dnf install -y --setopt=install_weak_deps=False "$@" >&2 ;;
	apk) as_root apk add "$@" >&2 ;;
	brew) brew install "$@" >&2 ;;
	esac
}

# have_pooler looks where package devpg looks.
have_pooler() {
	command -v pgbouncer >/dev/null 2>&1 && return 0
	for dir in /usr/sbin /usr/local/sbin /opt/homebrew/bin; do
		if [ -x "$dir/pgbouncer" ]; then return 0; fi
	done
	return 1
}

# have_broker looks where the tests of outbox/watermillpub look.
have_broker() {
	command -v nats-server >/dev/null 2>&1 && return 0
	for dir in /usr/sbin /usr/local/sbin /usr/local/bin /opt/homebrew/bin; do
		if [ -x "$dir/nats-server" ]; then return 0; fi
	done
	return 1
}

# install_unstarted MANAGER PACKAGE SERVICE: install it and have nobody start its
# service, now or when the system starts. Debian starts services at once unless
# a policy says no; where the system has a policy of its own, that holds.
install_unstarted() {
	policy=/usr/sbin/policy-rc.d ours=
	if [ "$1" = apt ] && [ ! -e "$policy" ]; then
		ours=yes
		printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
		as_root chmod 755 "$policy"
		trap 'as_root rm -f "$policy"; exit 1' INT TERM HUP
	fi
	failed=0
	install "$1" "$2" || failed=$?
	if [ -n "$ours" ]; then
		as_root rm -f "$policy"
		trap - INT TERM HUP
	fi
	if [ "$1" = apt ] && [ "$failed" -eq 0 ]; then
		# The second knows units without an init script.
		as_root update-rc.d "$3" disable >/dev/null 2>&1 ||
			as_root systemctl disable "$3" >/dev/null 2>&1 ||
			say "the service $3 may start with the system"
	fi
	return "$failed"
}

# no_main_cluster keeps Debian's package from making and starting a cluster.
no_main_cluster() {
	conf=/etc/postgresql-common/createcluster.conf
	[ ! -e "$conf" ] || return 0
	as_root mkdir -p "${conf%/*}"
	echo 'create_main_cluster = false' | as_root tee "$conf" >/dev/null
}

# apt_too_old: does this release have too old a server? Then installing it is
# of no use.
apt_too_old() {
	apt_update
	candidate=$(apt-cache policy postgresql | sed -n 's/^ *Candidate: *//p')
	major=${candidate%%[!0-9]*}
	[ -n "$major" ] && [ "$major" -lt "$min" ]
}

install_server() {
	if [ "$1" = apt ]; then
		if apt_too_old; then
			say "this system's package is PostgreSQL $major, but $min or newer is needed"
			return 1
		fi
		no_main_cluster
	fi
	install "$1" "$(server_package "$1")"
}

ensure_server() {
	if have_postgres; then return 0; fi
	with=$(manager)
	if [ -n "$with" ] && install_server "$with" && have_server; then
		return 0
	fi
	remedy="install PostgreSQL $min or newer (Debian: apt-get install postgresql; macOS: brew install postgresql@17; others: postgresql.org/download), or set TXONCE_TEST_DATABASE_URL to the URL of a running server"
	if [ "$(id -u)" -eq 0 ]; then
		fail "no PostgreSQL: $remedy"
	fi
	say "no PostgreSQL, and I may not install it: the tests will try to download one. If that fails, $remedy"
}

ensure_compiler() {
	if have_compiler; then return 0; fi
	with=$(manager)
	if [ -n "$with" ]; then
		# Unquoted: several packages.
		# shellcheck disable=SC2046
		if install "$with" $(compiler_packages "$with") && have_compiler; then
			return 0
		fi
	fi
	fail "no C compiler, which go test -race needs: install gcc (Debian: apt-get install gcc libc6-dev; macOS: xcode-select --install), or test without -race"
}

ensure_pooler() {
	if have_pooler; then return 0; fi
	with=$(manager)
	if [ -n "$with" ]; then
		# On Debian it needs postgresql-common, which would make a cluster for
		# the next server that is installed.
		if [ "$with" = apt ]; then no_main_cluster; fi
		if install_unstarted "$with" pgbouncer pgbouncer && have_pooler; then return 0; fi
	fi
	fail "no pgbouncer: install it (Debian: apt-get install pgbouncer; macOS: brew install pgbouncer; others: pgbouncer.org)"
}

ensure_spin() {
	if command -v spin >/dev/null 2>&1; then return 0; fi
	with=$(manager)
	if [ -n "$with" ] && install "$with" spin && command -v spin >/dev/null 2>&1; then return 0; fi
	fail "no Spin: install it (Debian: apt-get install spin; macOS: brew install spin; others: spinroot.com)"
}

ensure_broker() {
	if have_broker; then return 0; fi
	with=$(manager)
	if [ -n "$with" ] && install_unstarted "$with" nats-server nats-server && have_broker; then
		return 0
	fi
	fail "no nats-server: install it (Debian: apt-get install nats-server; macOS: brew install nats-server; others: nats.io/download), or do without the tests that need a broker"
}

case ${1:-} in
'') ensure_server ;;
race)
	ensure_server
	ensure_compiler
	;;
pooler)
	ensure_server
	ensure_pooler
	;;
model)
	ensure_spin
	ensure_compiler
	;;
broker)
	ensure_server
	ensure_broker
	;;
*) fail "usage: scripts/setup.sh [race | pooler | model | broker]" ;;
esac
