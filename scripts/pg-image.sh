#!/bin/sh
# Gets container images of Postgres: from a registry where one can be reached, else
# out of Debian's packages.
#
#   scripts/pg-image.sh [VERSION...]   15 and 17 without an argument
#
# The images are txonce/postgres:VERSION. Those out of packages behave as the
# official ones do as far as tests need it: POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB,
# POSTGRES_HOST_AUTH_METHOD, POSTGRES_INITDB_ARGS, PGDATA, and scripts in
# /docker-entrypoint-initdb.d. An image that is there and was made by this
# version of the script is left alone; FORCE=1 makes it anew.
#
# Packages are only unpacked, into a temporary directory: nothing is installed,
# no script of a package is run, and no right is needed but that to the engine.
# What a server does not need (perl, LLVM, manuals) is left out.
#
# Exit status 0: the images are there. 1: something went wrong. 3: they cannot be
# had here, for the reason that is said (no engine, or neither a registry nor a Debian system).
set -eu

say() { printf 'pg-image: %s\n' "$*" >&2; }

cannot() {
	say "$*"
	exit 3
}

# suite VERSION: the Debian release that has it.
suite() {
	case $1 in
	15) echo bookworm ;;
	17) echo trixie ;;
	*)
		say "PostgreSQL $1 is in no Debian release known here; use 15 or 17"
		exit 1
		;;
	esac
}

# Without these a server runs.
unneeded='libllvm* libz3* perl* libperl* *-perl_* dpkg_* apt_* libapt* sqv_* postgresql-common* postgresql-client-common* openssl_* locales* libc-l10n*
	debconf* gcc-*-base* tar_* ucf_* sensible* ssl-cert* procps* libproc2* adduser* passwd_*'

is_unneeded() {
	set -f
	for pattern in $unneeded; do
		# shellcheck disable=SC2254 # it is a pattern
		case $1 in
		$pattern)
			set +f
			return 0
			;;
		esac
	done
	set +f
	return 1
}

# packages VERSION DIR: downloads a server and all it needs.
packages() {
	apt=$2 release=$(suite "$1")
	mkdir -p "$apt/etc/apt/apt.conf.d" "$apt/etc/apt/preferences.d" "$apt/etc/apt/sources.list.d" "$apt/etc/apt/trusted.gpg.d" \
		"$apt/var/lib/dpkg" "$apt/var/lib/apt/lists/partial" "$apt/var/cache/apt/archives/partial"
	: >"$apt/var/lib/dpkg/status"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $release main" >"$apt/etc/apt/sources.list"
	set -- "$1" -o Dir="$apt" -o Dir::State::status="$apt/var/lib/dpkg/status" -o APT::Install-Recommends=false \
		-o Acquire::Languages=none -o APT::Sandbox::User= -o Debug::NoLocking=1 -o Acquire::Retries=3
	version=$1
	shift
	apt-get "$@" update >"$apt/log" 2>&1 &&
		apt-get "$@" -y --download-only install base-files dash coreutils util-linux libc-bin sed grep findutils mawk tzdata \
			"postgresql-$version" >>"$apt/log" 2>&1 || {
		tail -n 5 "$apt/log" >&2
		say "PostgreSQL $version could not be downloaded from $release"
		exit 1
	}
}

# unpack DIR ROOT: packages into a root directory, without their scripts.
unpack() {
	mkdir -p "$2/usr/bin" "$2/usr/sbin" "$2/usr/lib" "$2/usr/lib64"
	for dir in bin sbin lib lib64; do ln -s "usr/$dir" "$2/$dir"; done
	for deb in "$1"/var/cache/apt/archives/*.deb; do
		if is_unneeded "${deb##*/}"; then continue; fi
		# llvmjit.so goes with LLVM: where both are absent, the server plans without JIT.
		dpkg-deb --fsys-tarfile "$deb" | tar -C "$2" -x --keep-directory-symlink --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' \
			--exclude='./usr/share/info/*' --exclude='./usr/share/lintian/*' --exclude='./usr/share/locale/*' --exclude='./usr/share/i18n/*' \
			--exclude='*/lib/bitcode/*' --exclude='*/lib/llvmjit*' 2>/dev/null || {
			# An ordinary user may not make devices or change owners; what counts is there.
			[ "$(id -u)" -ne 0 ] || {
				say "cannot unpack ${deb##*/}"
				exit 1
			}
		}
	done
	# What the scripts of packages would have done.
	printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\npostgres:x:999:999:postgres:/var/lib/postgresql:/bin/sh\n' >"$2/etc/passwd"
	printf 'root:x:0:\nnogroup:x:65534:\npostgres:x:999:\n' >"$2/etc/group"
	printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$2/etc/nsswitch.conf"
	rm -rf "$2/var/run"
	ln -s /run "$2/var/run"
	[ -e "$2/usr/bin/awk" ] || ln -s mawk "$2/usr/bin/awk"
	mkdir -p "$2/run" "$2/tmp" "$2/docker-entrypoint-initdb.d" "$2/usr/local/bin"
	chmod 1777 "$2/tmp"
}

# is_there VERSION: is there an image, of a registry or of this version of the script?
is_there() {
	[ -z "${FORCE:-}" ] || return 1
	case $(docker image inspect --format '{{.Comment}};{{join .RepoTags ";"}};' "txonce/postgres:$1" 2>/dev/null) in
	"$recipe;"* | *";postgres:$1;"*) return 0 ;;
	esac
	return 1
}

# pull IMAGE: from a registry, which may be out of reach and say nothing. One that said nothing is not asked again.
pull() {
	[ -z "$unreachable" ] || return 1
	if command -v timeout >/dev/null 2>&1; then set -- timeout 120 docker pull --quiet "$1"; else set -- docker pull --quiet "$1"; fi
	"$@" >/dev/null 2>&1 || {
		[ $? -ne 124 ] || unreachable=yes
		return 1
	}
}

# find_mirror sets the Debian mirror that this machine uses.
find_mirror() {
	command -v apt-get >/dev/null 2>&1 && command -v dpkg-deb >/dev/null 2>&1 ||
		cannot "no registry, and without one images are made from Debian's packages, on a Debian system"
	mirror=$(apt-get indextargets --no-release-info --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep -m1 '/debian/$') ||
		cannot "no registry, and this system's package sources have no Debian mirror"
}

# image VERSION: gets or makes one.
image() {
	version=$1
	tag=txonce/postgres:$version
	if is_there "$version"; then
		say "$tag is there"
		return 0
	fi
	old=$(docker image inspect --format '{{.Id}}' "$tag" 2>/dev/null) || old=
	if pull "postgres:$version"; then
		docker tag "postgres:$version" "$tag"
		say "$tag is postgres:$version of a registry"
		return 0
	fi
	find_mirror
	say "no registry: making $tag from Debian's $(suite "$version")"
	apt=$work/apt$version root=$work/root$version
	packages "$version" "$apt"
	unpack "$apt" "$root"
	install -m 755 "$here/pg-image-entrypoint.sh" "$root/usr/local/bin/docker-entrypoint.sh"
	# psql of the package is in a folder of its own: /usr/bin has a wrapper in perl.
	base=$tag-base
	tar -C "$root" --numeric-owner --owner=0 --group=0 --sort=name -c . | docker import \
		--change 'ENTRYPOINT ["docker-entrypoint.sh"]' --change 'CMD ["postgres"]' --change 'EXPOSE 5432' \
		--change "ENV PATH=/usr/local/bin:/usr/lib/postgresql/$version/bin:/usr/sbin:/usr/bin" \
		--change 'ENV LANG=C.UTF-8' --change 'ENV PGDATA=/var/lib/postgresql/data' - "$base" >/dev/null
	# A cluster is part of the image: copying it takes a fraction of what making it does.
	box=$(docker create --env PGDATA=/usr/local/share/pgtemplate --env POSTGRES_HOST_AUTH_METHOD=trust "$base" postgres --version)
	docker start --attach "$box" >"$work/log" 2>&1 || {
		cat "$work/log" >&2
		exit 1
	}
	docker commit --message "$recipe" --change 'CMD ["postgres"]' --change 'ENV PGDATA=/var/lib/postgresql/data' "$box" "$tag" >/dev/null
	docker rm "$box" >/dev/null && box=
	docker rmi "$base" >/dev/null && base=
	[ -z "$old" ] || docker rmi "$old" >/dev/null 2>&1 || true # somebody may use it
	chmod -R u+w "$apt" "$root" 2>/dev/null || true
	rm -rf "$apt" "$root"
	say "$tag: $(docker run --rm "$tag" sh -c 'postgres --version'), $(docker image inspect --format '{{.Size}}' "$tag" | awk '{ printf "%d MB", $1 / 1e6 }')"
}

here=$(cd "$(dirname "$0")" && pwd)
command -v docker >/dev/null 2>&1 || cannot "no container engine here: the suites will run on local server binaries"
docker version >/dev/null 2>&1 || cannot "the container engine does not answer: the suites will run on local server binaries"

recipe="txonce $(cat "$here/pg-image.sh" "$here/pg-image-entrypoint.sh" | cksum | tr ' ' -)"
# leave removes what only the making needs, also where it was broken off.
leave() {
	[ -z "$box" ] || docker rm --force "$box" >/dev/null 2>&1 || true
	[ -z "$base" ] || docker rmi "$base" >/dev/null 2>&1 || true
	chmod -R u+w "$work" 2>/dev/null || true
	rm -rf "$work"
}

box='' base='' unreachable=''
work=$(mktemp -d)
trap leave EXIT
trap 'exit 1' INT TERM HUP
[ $# -gt 0 ] || set -- 15 17
for version in "$@"; do image "$version"; done
