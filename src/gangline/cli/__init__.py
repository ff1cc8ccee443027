"""The command line: parses, calls the SDK, prints. One file per command; a command is imported when it is used."""
