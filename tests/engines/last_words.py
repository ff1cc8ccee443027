"""What programs leave behind when they fail, and what of it is the reason that users are told, on every engine."""

EXCEPTION = 'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\n    main()\n'

LAST_WORDS = {
    "one line": ("the disk is full\n", "the disk is full"),
    "an exception": (f"{EXCEPTION}ValueError: no\n", "ValueError: no"),
    "an exception that shows JSON": (
        f'{EXCEPTION}ValueError: bad: {{\n  "a": [\n    1\n  ]\n}}\n',
        "ValueError: bad: {",
    ),
    "an exception of several lines": (
        f"{EXCEPTION}RuntimeError: CUDA error: assert\nFor debugging see the manual.\n",
        "RuntimeError: CUDA error: assert",
    ),
    "an exception that follows another": (
        f"{EXCEPTION}KeyError: 1\n\nDuring handling of it:\n\n{EXCEPTION}OSError: gone\n",
        "OSError: gone",
    ),
    "an exception with a prefix": (
        "[rank0]: Traceback (most recent call last):\n[rank0]:   File x\n[rank0]: RuntimeError: no memory\n",
        "[rank0]: RuntimeError: no memory",
    ),
    "a traceback that has no end": ("the disk is full\nTraceback (most recent call last):\n  File x\n", "File x"),
    "JSON behind it": ('the disk is full\n[12:00 INFO]: Got:\n{\n  "a": {\n    "b": 1\n  }\n}\n', "the disk is full"),
    "JSON around it": ('{\n"a": 1\nthe disk is full\n}\n', "the disk is full"),
    "a rule below it": ("the disk is full\n=======\n", "the disk is full"),
    "colours": ("\x1b[31mthe disk is full\x1b[0m\n", "the disk is full"),
    "nothing but JSON": ('{\n  "a": 1\n}\n', ""),
    "nothing but routine": ("[12:00 INFO]: Got executor_input:\n{\n}\n12:01 DEBUG looking\n", ""),
    "nothing": ("", ""),
}
