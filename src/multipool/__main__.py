"""``python -m multipool``: the command line."""

from multipool.cli.main import main

if __name__ == "__main__":
    main()
