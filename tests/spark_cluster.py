"""Perturb on a cluster of two executors, and kill one of them once tasks are done: run by test_engines_spark."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

from postrand import formats
from postrand.engines import FolderSink
from postrand.engines.spark import SparkEngine, local_session
from tests.test_engines import KEY, mechanism


def descendants_of_this_process() -> list[int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = [os.getpid()]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


def executors() -> list[int]:
    found = []
    for pid in descendants_of_this_process():
        try:
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"CoarseGrainedExecutorBackend" in arguments and b"java" in arguments.split(b"\0")[0]:
            found.append(pid)
    return found


def kill_one(session, lost: list[int], over: threading.Event) -> None:
    tracker = session.sparkContext.statusTracker()
    while not over.is_set():
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        if any(stage and stage.numCompletedTasks >= 2 and stage.numActiveTasks for stage in stages):
            pid = executors()[0]
            os.kill(pid, signal.SIGKILL)
            lost.append(pid)
            return
        time.sleep(0.02)


def main(source: str, target: str) -> None:
    conf = {
        "spark.executor.memory": "1g",
        "spark.sql.files.maxPartitionBytes": "64k",
        "spark.sql.files.openCostInBytes": "64k",
        "spark.speculation": "true",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.3",
        "spark.speculation.minTaskRuntime": "10ms",
    }
    session = local_session("local-cluster[2,1,1024]", **conf)
    lost: list[int] = []
    over = threading.Event()
    killer = threading.Thread(target=kill_one, args=(session, lost, over))
    killer.start()
    engine = SparkEngine(session, parts=8)
    engine.perturb(formats.read(source), mechanism(), KEY, FolderSink(Path(target)), record_key="id")
    over.set()
    killer.join()
    tracker = session.sparkContext.statusTracker()
    stages = filter(None, (tracker.getStageInfo(number) for number in range(20)))
    failed = sum(stage.numFailedTasks for stage in stages)
    session.stop()
    sys.stdout.write(f"{len(lost)} {failed}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
