"""The page of `spindle serve` in a real browser, with a journal of many calls."""
