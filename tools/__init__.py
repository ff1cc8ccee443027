"""What maintainers, tests and benchmarks run from a clone: no part of what is installed."""
