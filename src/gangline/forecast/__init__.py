"""What will happen, and what would: the real scheduler and lifecycle run forward from the state of now.

``course`` looks ahead, ``whatif`` compares two courses, ``changes`` and ``machines`` read what somebody changes in
thought. All of it is pure, so that the command line and the dashboard ask the same of whatever service they speak to.
"""
