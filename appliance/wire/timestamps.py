"""Points in time as messages carry them."""

import datetime as dt

from google.protobuf.timestamp_pb2 import Timestamp

from appliance.core.errors import UserError


def moment_of(timestamp: Timestamp) -> dt.datetime:
    """Return a point in time, in UTC.

    Raises:
        UserError: It is outside the years 1 to 9999.
    """
    try:
        return timestamp.ToDatetime(tzinfo=dt.UTC)
    except (ValueError, OverflowError) as error:
        raise UserError(
            f"{timestamp.seconds} seconds and {timestamp.nanos} nanoseconds after 1970 are no time "
            "between the years 1 and 9999."
        ) from error
