"""The replaceable rules: one verb each, one small file each. ``interface`` says when each is called."""
