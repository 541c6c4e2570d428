"""`python -m cause`, where the command is not installed."""

from cause.cli import main

if __name__ == "__main__":
    main()
