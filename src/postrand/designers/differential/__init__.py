"""Designs under differential privacy, one file each."""
