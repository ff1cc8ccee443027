"""One module per command, each with one function ``command``; cli/lazy.py lists them."""
