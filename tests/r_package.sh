#!/bin/sh
# Build and check the R package, its own tests included: no error, no warning, no note. Nothing is asked of a network.
set -eu
package=$(cd "$(dirname "$0")/../r/postrand" && pwd)
if ! command -v R >/dev/null; then
	[ "${CI:-}" != true ] || { echo "R is not installed: make services installs it (as root)" >&2; exit 1; }
	echo "R is not installed, so its package is not checked: make services installs it (as root)"
	exit 0
fi
export LANG=C.UTF-8 LC_ALL=C.UTF-8  # without any locale R warns, and a warning fails the check
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/none/src/contrib"
: >"$folder/none/src/contrib/PACKAGES"
echo "options(repos = c(CRAN = 'file://$folder/none'))" >"$folder/profile"
cd "$folder"
R CMD build "$package" >build.log 2>&1 || { cat build.log; exit 1; }
export R_PROFILE_USER="$folder/profile" _R_CHECK_FORCE_SUGGESTS_=false
R CMD check --no-manual postrand_*.tar.gz >check.log 2>&1 || true
tail -n 12 check.log
grep -q "^Status: OK" check.log || {
	grep -vE "OK$" check.log
	cat postrand.Rcheck/tests/*.fail 2>/dev/null || true
	exit 1
}
