"""The entry point: it ends with status 130 and without words on Ctrl-C, whatever Python imports at that moment."""

import os

INTERRUPTED = 130
"""The exit status that shells give a command ended by Ctrl-C."""


KUBECTL = "kubectl tonnage"
"""What people type who call the program as a plugin of kubectl."""


def kubectl_main() -> None:
    """Run the command line as a plugin of kubectl."""
    main(KUBECTL)


def main(name: str | None = None) -> None:
    """Run the command line, under another name if one is given."""
    try:
        import signal
        from types import FrameType

        def end_at_once(number: int, frame: FrameType | None) -> None:
            os._exit(INTERRUPTED)

        # A KeyboardInterrupt amid imports ends in a traceback, and some extension modules make an ImportError of it.
        is_ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
        if not is_ignored:
            signal.signal(signal.SIGINT, end_at_once)
        from tonnage.cli.group import group

        try:
            group(prog_name=name)
        finally:
            if not is_ignored:
                signal.signal(signal.SIGINT, end_at_once)
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
