"""Tracebacks that a user can read: the line of the call, one line of ours, and whatever is not ours.

A call runs through plans, the driver and the transport. Their frames say nothing to a user, and an error of a provider
would show thirty of them. Frames of the user's own functions stay: tools, credentials, clients.
"""

import sys
from types import TracebackType

OWN = __name__.partition(".")[0]


def shorten_traceback(error: BaseException, /) -> None:
    """Leave the first frame of an error, and the frames of other packages; likewise for its causes."""
    first = error.__traceback__
    if first is not None:
        rest = _foreign(first.tb_next)
        error.__traceback__ = TracebackType(rest, first.tb_frame, first.tb_lasti, first.tb_lineno)
    seen = {id(error)}
    causes = [error.__cause__, error.__context__]
    while causes:
        cause = causes.pop()
        if cause is not None and id(cause) not in seen:
            seen.add(id(cause))
            cause.__traceback__ = _foreign(cause.__traceback__)
            causes += [cause.__cause__, cause.__context__]


def _foreign(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback from its first frame that is neither ours nor of the standard library."""
    while traceback is not None:
        package = str(traceback.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        if package != OWN and package not in sys.stdlib_module_names:
            return traceback
        traceback = traceback.tb_next
    return None
