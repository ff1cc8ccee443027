"""Gangs that wait, run or terminate, reduced to what the scheduler needs."""
