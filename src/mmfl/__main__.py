"""``python -m mmfl`` is the command line."""

from mmfl.cli import main

if __name__ == "__main__":
    main()
