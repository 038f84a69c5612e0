"""The command line: one sub-command a step; each parses, makes one library call, and prints."""

try:
    from postrand.cli import advise as advise
    from postrand.cli import alternatives as alternatives
    from postrand.cli import analyse as analyse
    from postrand.cli import columns as columns
    from postrand.cli import complete as complete
    from postrand.cli import ledger as ledger
    from postrand.cli import plans as plans
    from postrand.cli import prepare as prepare
    from postrand.cli import recode as recode
    from postrand.cli import release as release
    from postrand.cli import sign as sign
    from postrand.cli import workbench as workbench
    from postrand.cli.frame import main
except KeyboardInterrupt:  # Ctrl-C before the command line can listen to signals
    raise SystemExit(130) from None

__all__ = ["main"]
