"""Alternatives to post-randomisation with their own claims: local suppression and microaggregation."""
