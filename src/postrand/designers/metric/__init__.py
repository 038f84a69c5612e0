"""Designs under metric privacy."""
