"""Small tools that every room uses: reading plain input, options, exact sums, keyed randomness, progress."""
