"""Compare all strategies: measure, judge, draw, and write the page."""
