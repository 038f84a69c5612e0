"""Spark's session: the one that runs, else a new one on this machine or on a cluster; Spark Connect is refused."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from postrand.engines.resources import CONNECT, CONNECT_FIX, Resources
from postrand.errors import UsageError, sentence
from postrand.support.extras import require

_CONF = {
    "spark.sql.caseSensitive": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(1 << 16),
    "spark.sql.session.timeZone": "UTC",
}
_ASKED = "spark.postrand.asked"
"""The setting by which a session that was started for these choices is known again."""


def session_for(resources: Resources) -> Any:
    """Return the session of an engine: with a master, settings, threads or memory a new one, else as local_session.

    Raises
    ------
    UsageError
        If pyspark or Java is missing, or a session runs already that was not started with these choices.
    """
    conf = dict(resources.conf)
    local = not resources.master or resources.master.startswith("local")
    if resources.memory_limit is not None:
        memory = f"{max(1, resources.memory_limit >> 20)}m"
        conf = {"spark.driver.memory" if local else "spark.executor.memory": memory} | conf
    master = resources.master or (f"local[{resources.threads}]" if resources.threads else "")
    if not master and not conf:
        return local_session()
    asked = f"{master} {sorted(conf.items())}"
    running = _running()
    if running is not None and running.conf.get(_ASKED, None) == asked:
        return running
    if running is not None or _submitted():
        what = "Spark already runs, with its own master and settings"
        fix = "give master, settings, cores and memory to spark-submit, and leave these options out here"
        raise UsageError(sentence(what, fix=fix))
    return local_session(master or "local[*]", **conf, **{_ASKED: asked})


def local_session(master: str = "local[*]", **conf: str) -> Any:
    """Return the active Spark session, or start one; on this machine it is bound to the loopback address.

    Under spark-submit, master and settings are those of that command.

    Raises
    ------
    UsageError
        If pyspark or Java is missing, or the session is one of Spark Connect.
    """
    pyspark, SparkSession = quietly(_library)
    where = "SPARK_REMOTE" if "SPARK_REMOTE" in os.environ else ""
    if where or master.startswith("sc://"):
        raise UsageError(sentence(CONNECT, where=where, fix=CONNECT_FIX))
    if (active := _running()) is not None:
        return active
    builder = SparkSession.builder.appName("postrand")
    if _submitted():
        return builder.getOrCreate()
    home = os.environ.get("JAVA_HOME")
    if not (shutil.which("java") or (home and Path(home, "bin", "java").exists())):
        fix = "install a Java runtime, version 17 or later (openjdk-17-jre-headless), or set JAVA_HOME"
        raise UsageError(sentence("Spark needs Java, but Java is not installed", fix=fix))
    # The installed package is a whole Spark; another one named by the environment may be of another version.
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    own = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false", "spark.ui.enabled": "false"}
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        own |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
        own["spark.sql.shuffle.partitions"] = "8"
        # Records are perturbed in Python: the second compiler of Java would take as long to start as all of it.
        own["spark.driver.extraJavaOptions"] = "-XX:TieredStopAtLevel=1"
    builder = builder.master(master)
    for name, value in {**own, **conf}.items():
        builder = builder.config(name, value)
    before = _children()
    try:
        return _without_traces(quietly(builder.getOrCreate))
    except BaseException:  # Java that is interrupted while it starts does not end by itself
        for child in _children() - before:
            with suppress(ProcessLookupError):
                os.kill(child, getattr(signal, "SIGKILL", signal.SIGTERM))
        raise


def _children() -> set[int]:
    """Return the processes that this one has started; of Linux alone, elsewhere none are found."""
    found = set[int]()
    for listed in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended
            found |= set(map(int, listed.read_text().split()))
    return found


def _submitted() -> bool:
    """Whether this process was started by spark-submit."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _running() -> Any:
    _, SparkSession = quietly(_library)
    active = SparkSession.getActiveSession()
    if active is not None:
        check_classic(active)
    return active


def _library() -> Any:
    require("pyspark", "Spark needs")
    import pyspark
    from pyspark.sql import SparkSession

    return pyspark, SparkSession


def check_classic(session: Any) -> None:
    """Raise UsageError for a Spark Connect session, which has neither RDDs nor a context."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise UsageError(sentence(CONNECT, fix=CONNECT_FIX))


@contextmanager
def configured(session: Any) -> Iterator[None]:
    """Set what the engine relies on, and put it back; an end of Java is told by the error, not by traces."""
    from py4j.protocol import Py4JNetworkError  # needs the extra "spark"

    before = {name: session.conf.get(name, None) for name in _CONF}
    logging.getLogger().addFilter(_is_not_of_py4j)
    try:
        for name, value in _CONF.items():
            session.conf.set(name, value)
        yield
    finally:
        with suppress(Py4JNetworkError, ConnectionError):  # settings end with Java, and the block's error counts
            for name, found in before.items():
                session.conf.unset(name) if found is None else session.conf.set(name, found)
        logging.getLogger().removeFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Whether a record of the root's own is not of the bridge to Java, which logs what it raises."""
    return Path(record.pathname).parent.name != "py4j"


def _without_traces(session: Any) -> Any:
    """Return a session of ours whose server of counters prints no trace when Java has ended: the engine tells it."""
    server = session.sparkContext._accumulatorServer
    shown = server.handle_error

    def handle_error(request: Any, address: Any) -> None:
        if not isinstance(sys.exc_info()[1], EOFError | ConnectionError):
            shown(request, address)

    server.handle_error = handle_error
    return session


def quietly(work: Any) -> Any:
    """Call ``work`` without PySpark's warning about pandas, which is not used here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        return work()
