#!/bin/sh
# Checks the models in docs/model exhaustively with Spin, and then each of their
# mutants, which must yield a counterexample.
#
#   scripts/model.sh [MODEL...]     all models without an argument
#
# A model's mutants are the names in the comment at its head, behind "Mutants:"; a
# name is given to the preprocessor, or several joined by "+".
set -eu
cd "$(dirname "$0")/../docs/model"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP

models=0 states=0 errors=0 mutants=0 caught=0

# check MODEL [NAME...]: sets found (errors) and seen (states).
check() {
	file=$1
	shift
	defines=
	for name in "$@"; do defines="$defines -D$name"; done
	# Unquoted: several arguments.
	# shellcheck disable=SC2086
	(cd "$work" && spin $defines -a "$models_dir/$file" >spin.log 2>&1 && cc -O2 -DSAFETY -DCOLLAPSE -DMEMLIM=4096 -o pan pan.c 2>cc.log && ./pan -m1000000 >pan.log 2>&1) || {
		cat "$work"/*.log >&2
		exit 1
	}
	if grep -Eq 'max search depth too small|out of memory|reached -DMEMLIM' "$work/pan.log"; then
		echo "model: $file: the search was not exhaustive" >&2
		exit 1
	fi
	found=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' "$work/pan.log")
	seen=$(sed -n 's/ *\([0-9.e+]*\) states, stored.*/\1/p' "$work/pan.log" | awk '{ printf "%d", $1 }')
}

models_dir=$PWD
[ $# -gt 0 ] || set -- *.pml
for file in "$@"; do
	names=$(sed -n '/Mutants:/,/\*\//s/^ \*   \([A-Z][A-Z_+]*\)  .*/\1/p' "$file")
	[ -n "$names" ] || {
		echo "model: $file names no mutants" >&2
		exit 1
	}
	for variant in "" $(sed -n 's/.*With \([A-Z_]*\) each.*/\1/p' "$file"); do
		# Unquoted: none or one.
		# shellcheck disable=SC2086
		check "$file" $variant
		models=$((models + 1)) states=$((states + seen)) errors=$((errors + found))
		printf 'model: %-10s %-22s %9d states, %d errors\n' "$file" "$variant" "$seen" "$found"
	done
	for mutant in $names; do
		# Unquoted: several names.
		# shellcheck disable=SC2046
		check "$file" $(echo "$mutant" | tr + ' ')
		mutants=$((mutants + 1))
		if [ "$found" -gt 0 ] && grep -Eq 'assertion violated|acceptance cycle|non-progress cycle' "$work/pan.log"; then
			caught=$((caught + 1))
			said=$(printf 'counterexample: '; sed -n 's/^pan:[0-9]*: \(.*\) (at depth.*/\1/p' "$work/pan.log" | head -1)
		else
			said="no counterexample"
		fi
		printf 'model: %-10s %-22s %s\n' "$file" "$mutant" "$said"
	done
done
echo "model: models=$models states=$states errors=$errors mutants_caught=$caught/$mutants"
[ "$errors" -eq 0 ] && [ "$caught" -eq "$mutants" ]
