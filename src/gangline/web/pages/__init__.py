"""The pages, one module each: ``entries`` are its lines of the navigation, ``operations_here`` its routes."""
