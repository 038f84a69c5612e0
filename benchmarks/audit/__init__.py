"""The empirical audit of what releases promise: ``python -m benchmarks.audit``, and docs/audit.md."""
