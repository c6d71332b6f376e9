"""The errors of a servicer as gRPC status codes, in one place for every service of a pod."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import grpc

from appliance.core.errors import WscError
from appliance.wire.error_status import status_of

logger = logging.getLogger(__name__)

Request = TypeVar("Request")
Reply = TypeVar("Reply")


class ErrorStatusInterceptor(grpc.ServerInterceptor):
    """Turns what a method raises into a status and one sentence."""

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], "grpc.RpcMethodHandler[Any, Any] | None"],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "grpc.RpcMethodHandler[Any, Any] | None":
        """Wrap unary methods; a pod has no others."""
        handler = continuation(handler_call_details)
        if handler is None or handler.unary_unary is None:
            return handler
        return grpc.unary_unary_rpc_method_handler(
            _translated(handler.unary_unary, handler_call_details.method),
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )


def _translated(
    method: Callable[[Request, grpc.ServicerContext], Reply], name: str
) -> Callable[[Request, grpc.ServicerContext], Reply]:
    def call(request: Request, context: grpc.ServicerContext) -> Reply:
        try:
            return method(request, context)
        except WscError as error:
            logger.warning("Call refused", extra={"method": name, "reason": str(error)})
            context.abort(status_of(error), str(error))
            raise

    return call
