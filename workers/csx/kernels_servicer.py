"""Serves `wsc.v1.Kernels`: by which library a session computes what several can compute."""

import logging
from collections.abc import Callable

import grpc

from appliance.core.errors import ConflictError
from appliance.numerics.choice_timing import machine, measure
from appliance.numerics.choices import Implementation, Problem
from protos.wsc.v1 import pods_pb2, pods_pb2_grpc
from workers.csx.session import CsxSession

logger = logging.getLogger(__name__)


class KernelsServicer(pods_pb2_grpc.KernelsServicer):
    """The service of one system.

    Args:
        session: Returns the session that was loaded last; None before the first.
    """

    def __init__(self, session: Callable[[], CsxSession | None]) -> None:
        self._session = session

    def ListProblems(
        self, request: pods_pb2.ListProblemsRequest, context: grpc.ServicerContext
    ) -> pods_pb2.ListProblemsReply:
        """Return what there is to choose for, and what a measurement depends on."""
        session = self._loaded(request.session)
        problems = session.choices.problems
        if not problems:
            return pods_pb2.ListProblemsReply()
        return pods_pb2.ListProblemsReply(
            problems=map(str, problems), num_threads=session.num_threads, machine=machine()
        )

    def MeasureProblems(
        self, request: pods_pb2.MeasureProblemsRequest, context: grpc.ServicerContext
    ) -> pods_pb2.MeasureProblemsReply:
        """Time each problem by each library."""
        reply = pods_pb2.MeasureProblemsReply()
        for text in request.problems:
            timing = measure(Problem.parse(text), num_threads=request.num_threads)
            seconds = {each.value: value for each, value in timing.seconds.items()}
            reply.timings.add(
                problem=text,
                by_rule=timing.by_rule.value,
                chosen=timing.chosen.value,
                seconds=seconds,
                num_operations=timing.num_operations,
            )
            logger.info("Libraries timed", extra={"problem": text, "chosen": timing.chosen.value})
        return reply

    def UseImplementations(
        self, request: pods_pb2.UseImplementationsRequest, context: grpc.ServicerContext
    ) -> pods_pb2.UseImplementationsReply:
        """Have the session compute as is said."""
        chosen = {
            Problem.parse(problem): Implementation(name)
            for problem, name in request.implementations.items()
        }
        self._loaded(request.session).choices.use(chosen)
        libraries = dict(sorted(request.implementations.items()))
        logger.info("Libraries chosen", extra={"libraries": libraries})
        return pods_pb2.UseImplementationsReply()

    def _loaded(self, number: int) -> CsxSession:
        session = self._session()
        if session is None or session.number != number:
            raise ConflictError(f"This system has not loaded session {number}.")
        return session
