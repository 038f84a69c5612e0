#!/bin/sh
# What some tests start, from the system's packages: Java for Spark, a PostgreSQL server, Chromium, R. Nothing to do
# where they are.
set -eu
missing=""
command -v java >/dev/null || [ -x "${JAVA_HOME:-/none}/bin/java" ] || missing="$missing openjdk-17-jre-headless"
command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null ||
	missing="$missing chromium"
for package in digest haven jsonlite mice mitools survey; do
	Rscript -e "quit(status = !nzchar(system.file(package = '$package')))" >/dev/null 2>&1 || missing="$missing r-base-core r-cran-$package"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	echo "not installed:$missing (the tests that need them are skipped)"
	exit 0
fi
# The tests start a server of their own: none is to run beside it.
mkdir -p /etc/postgresql-common
[ -e /etc/postgresql-common/createcluster.conf ] || echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
