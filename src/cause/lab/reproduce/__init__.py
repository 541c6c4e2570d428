"""Every table and figure of the paper from real runs: cells (one run each), figures (what is made of them), a page."""
