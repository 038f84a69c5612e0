"""The tests are a package: shared helpers are imported as `from tests.oracles import ...`."""
