"""Conformance suites that a new member of a family passes, the package's own and anybody else's."""
