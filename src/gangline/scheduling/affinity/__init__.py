"""Affinity and anti-affinity between gangs: who may run beside whom."""
