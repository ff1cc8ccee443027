"""``python -m gangline``: the command line, for whoever has the package but not its program on the path."""

from gangline.cli.main import main

if __name__ == "__main__":
    main()
