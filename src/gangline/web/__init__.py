"""The dashboard: server-rendered pages over the operations, live without a reload.

``html`` writes elements, ``sessions`` remembers who has logged in, ``guards`` holds what protects a page, ``frame`` is
what surrounds every page, ``pages`` are the pages themselves. Pages decide nothing: they ask ``operations`` and show.
What a browser reads besides (metrics, logs) it reads from the REST interface at the same port.
"""
