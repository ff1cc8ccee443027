"""What single kinds show besides what every kind does, one module each, called as the kind.

A module may have ``above_list`` (given the records of a page), ``sections`` (given one record) and ``below`` (the same,
for what is not brought up to date); each is given the request first and returns elements. ``forms`` are handlers of
forms by the last word of their path.
"""
