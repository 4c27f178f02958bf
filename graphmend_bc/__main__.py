"""Makes ``python -m graphmend_bc`` the command line of :mod:`graphmend_bc.cli.main`."""

from graphmend_bc.cli.main import main

if __name__ == "__main__":
    main()
