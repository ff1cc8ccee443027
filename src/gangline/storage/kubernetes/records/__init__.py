"""Objects as records of jobs, and back: one module per kind and per part of a record. Pure."""
