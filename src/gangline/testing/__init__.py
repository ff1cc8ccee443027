"""What tests are made of: builders, a clock that stands still, an in-memory client, and the contract suites.

Builders and client are for whoever tests a program that uses Gangline; an engine, a store or a client of your own must
pass the same suites as ours.
"""
