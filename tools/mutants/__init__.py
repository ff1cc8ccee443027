"""Mutation runs: change one operator, constant or statement at a time and see whether a test notices.

Run by ``make mutants``; no part of what is installed. ``operators`` makes the mutants of a source text, ``running``
tries them, ``__main__`` chooses which and reports.
"""
