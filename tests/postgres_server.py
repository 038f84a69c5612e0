"""Start a PostgreSQL server of our own, on a loopback port, in a folder that is removed with it."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import postgres_binaries


@contextmanager
def server(password: str = "") -> Iterator[str]:
    """Yield the URI of an empty database; the server runs as `postgres` where this process is root.

    With a password, which is not in the URI, it lets nobody in without it.
    """
    binaries = postgres_binaries()
    assert binaries is not None
    owner = "postgres" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="postrand-postgres-"))
    if owner:
        shutil.chown(folder, owner, owner)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(program: str, *arguments: str) -> None:
        command = [str(binaries / program), *arguments]
        subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL, user=owner, group=owner)

    data = str(folder / "data")
    try:
        (folder / "password").write_text(password)
        (folder / "password").chmod(0o644)
        login = ["-A", "scram-sha-256", "--pwfile", str(folder / "password")] if password else ["-A", "trust"]
        run("initdb", "-D", data, "-U", "curator", *login, "-E", "UTF8", "--locale=C", "--no-sync")
        options = f"-p {port} -c listen_addresses=127.0.0.1 -k {folder} -F"
        run("pg_ctl", "-D", data, "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield f"postgresql://curator@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
