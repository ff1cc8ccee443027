"""Telling others of the phases of jobs: sees which jobs changed, and sends what the plan of the kind says."""
