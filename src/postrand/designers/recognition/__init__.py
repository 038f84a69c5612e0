"""Designs against spontaneous recognition with the least squared loss."""
