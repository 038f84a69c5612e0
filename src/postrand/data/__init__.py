"""Records and tables of counts in memory: contingency tables, data frames, households."""
