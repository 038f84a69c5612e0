#!/bin/sh
# Try an installed wheel as a person would who has nothing else: sh tests/wheel.sh FOLDER_OF_ITS_PROGRAMS
set -eu
bin=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"  # away from the sources
"$bin/python" -c "import postrand.support._loops"  # what was compiled is in the wheel
"$bin/postrand" --version
"$bin/postrand" --help >help.txt
{ echo sex,area; i=0; while [ $i -lt 200 ]; do echo F,n; echo M,s; echo F,s; i=$((i + 1)); done; } >people.csv
"$bin/postrand" init people.csv --keys sex,area >made.txt
"$bin/postrand" assess people.csv --keys sex,area >risk.txt
"$bin/postrand" protect --plan plan.toml --out release >protected.txt
"$bin/postrand" verify release >verified.txt
"$bin/postrand" estimate release --table sex,area
# What needs an extra says which, and ends as a wrong use does.
if "$bin/postrand" app >app.txt 2>&1; then echo "the workbench opened without its extra" >&2; exit 1; fi
grep -q "postrand\[app\]" app.txt
