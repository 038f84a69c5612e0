"""Small tools that every room uses: readings of plain input, options, exact sums, keyed randomness, progress."""
