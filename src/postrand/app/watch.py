"""The watch of a run: how far it is, and whether a person asked it to stop."""

from __future__ import annotations

from dataclasses import dataclass

from postrand.support.memory import give_back
from postrand.support.progress import Step

WAITING = Step("waiting")


class Cancelled(BaseException):
    """A person stopped the run; all its files are removed. No handler of errors on the way may take it for one."""


@dataclass(slots=True)
class Watch:
    """The progress of a run, and whether it should stop."""

    latest: Step = WAITING
    stop: bool = False

    def hear(self, step: Step) -> None:
        """Note where the run is; raises Cancelled if a person asked to stop."""
        if self.stop:
            raise Cancelled
        if step.stage != self.latest.stage:
            give_back()
        self.latest = step
