"""The errors that the SDK's client is told."""

from protos.sdk.sdk_common_pb2 import StatusCode


class SdkError(Exception):
    """A request that fails, as the client is told of it.

    Args:
        message: One sentence, or the output of what has failed.
        code: How the client sorts it.
    """

    def __init__(
        self, message: str, code: "StatusCode.ValueType" = StatusCode.SDK_RT_UNKNOWN
    ) -> None:
        super().__init__(message)
        self.message, self.code = message, code


def file_error(message: str) -> SdkError:
    """Return the error that stands for files that cannot be taken or given."""
    return SdkError(message, StatusCode.SDK_RT_FILE_ERROR)
