"""Running and compiling functions of a program."""
