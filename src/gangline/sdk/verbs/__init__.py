"""The verbs of everything besides jobs: of the kinds, and of the team's service."""
