#!/bin/sh
# Entrypoint of the images that pg-image.sh makes: makes a cluster where there is
# none, and runs the server. What is not a server's command line is run as it is.
set -eu

case ${1:-} in
'' | -*) set -- postgres "$@" ;;
esac
[ "$1" = postgres ] || exec "$@"

if [ "$(id -u)" -eq 0 ]; then
	mkdir -p "$PGDATA" /var/run/postgresql
	chown postgres:postgres "$PGDATA" /var/run/postgresql
	chmod 700 "$PGDATA"
	exec setpriv --reuid=postgres --regid=postgres --init-groups -- "$0" "$@"
fi

template=/usr/local/share/pgtemplate # a cluster that is part of the image

# quoted CHARACTER TEXT: the text with each such character doubled.
quoted() { printf %s "$2" | sed "s/$1/$1$1/g"; }

if [ ! -s "$PGDATA/PG_VERSION" ]; then
	if [ -z "${POSTGRES_PASSWORD:-}" ] && [ "${POSTGRES_HOST_AUTH_METHOD:-}" != trust ]; then
		echo 'set POSTGRES_PASSWORD, or POSTGRES_HOST_AUTH_METHOD=trust' >&2
		exit 1
	fi
	user=${POSTGRES_USER:-postgres}
	database=${POSTGRES_DB:-$user}
	if [ -s "$template/PG_VERSION" ] && [ -z "${POSTGRES_INITDB_ARGS:-}" ]; then
		cp -a "$template/." "$PGDATA"
	else
		# Unquoted: several arguments.
		# shellcheck disable=SC2086
		initdb -N -D "$PGDATA" -U postgres -E UTF8 --auth-local=trust --auth-host=scram-sha-256 ${POSTGRES_INITDB_ARGS:-}
	fi
	[ "$PGDATA" != "$template" ] || exec "$@" # the image is being made
	printf 'host all all all %s\n' "${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}" >>"$PGDATA/pg_hba.conf" # as official images have it
	echo "listen_addresses = '*'" >>"$PGDATA/postgresql.conf"
	{
		role=$(quoted '"' "$user")
		[ "$user" = postgres ] || echo "CREATE ROLE \"$role\" SUPERUSER CREATEDB CREATEROLE REPLICATION LOGIN"
		[ -z "${POSTGRES_PASSWORD:-}" ] || echo "ALTER ROLE \"$role\" PASSWORD '$(quoted "'" "$POSTGRES_PASSWORD")'"
		[ "$database" = postgres ] || echo "CREATE DATABASE \"$(quoted '"' "$database")\" OWNER \"$role\""
	} | postgres --single -F -D "$PGDATA" postgres >/dev/null
	if [ -n "$(find /docker-entrypoint-initdb.d -name '*.sql' -o -name '*.sh')" ]; then
		pg_ctl -D "$PGDATA" -o '-F -c listen_addresses=' -w start
		for file in /docker-entrypoint-initdb.d/*; do
			case $file in
			*.sh) sh "$file" ;;
			*.sql) psql -v ON_ERROR_STOP=1 -U "$user" -d "$database" -f "$file" ;;
			esac
		done
		pg_ctl -D "$PGDATA" -m fast -w stop
	fi
	# Official images say so twice, and those who wait count.
	echo 'init done: database system is ready to accept connections'
fi
exec "$@"
