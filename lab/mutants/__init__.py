"""The mutation score: bugs that people write, planted one at a time, and what finds each of them.

The bugs are data (``catalogue/*.toml``). ``docs/mutants.md`` says how to run them and shows the
score.
"""
