"""The command line of `csl_lsp`."""

import argparse
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Serve one editor; 2 where the protocol's library is not installed."""
    parser = argparse.ArgumentParser(
        prog="csl_lsp",
        description="Language server for CSL: an editor starts it and speaks to it over standard "
        "input and output.",
    )
    parser.add_argument("--stdio", action="store_true", help="the default; some editors give it")
    parser.parse_args(sys.argv[1:] if argv is None else argv)
    try:
        from appliance.sdk.language_server.server import serve  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        text = f"{error.name} is not installed; install the extra 'editors' of the package"
        sys.stderr.write(f"csl_lsp: error: {text}, which has pygls\n")
        return 2
    serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
