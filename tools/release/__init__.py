"""Makes a release and checks every part of it by using it; run by ``make release``.

``building`` makes wheel, sdist, chart and image, ``trying`` installs and runs them, ``__main__`` calls both in order.
"""
