"""Logging in to a team's service, and staying logged in."""
