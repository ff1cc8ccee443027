"""How many replicas a job should have: speed as a function of size, work that remains, and the choice among all jobs.

Pure functions of what was measured (``gangline.model.jobs.speed``). The scheduler asks for sizes, and places them;
nothing here knows of nodes, queues or time.
"""
