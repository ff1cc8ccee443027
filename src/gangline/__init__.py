"""Gangline trains deep-learning models on many machines."""
