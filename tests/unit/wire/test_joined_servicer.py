"""A servicer of several parts answers what they do, and refuses the rest."""

import pytest

from appliance.wire.joined_servicer import joined


class Service:
    """Stands for a generated class."""

    def Ask(self, request, context):
        raise NotImplementedError

    def Tell(self, request, context):
        raise NotImplementedError


class Asked:
    def Ask(self, request, context):
        return f"{request}!"


def test_each_part_answers_its_methods_and_the_rest_is_refused():
    servicer = joined(Service, Asked())
    assert isinstance(servicer, Service)
    assert servicer.Ask("who", None) == "who!"
    with pytest.raises(NotImplementedError):
        servicer.Tell("what", None)


def test_no_method_is_answered_twice():
    with pytest.raises(TypeError, match="Ask is answered by 2 parts"):
        joined(Service, Asked(), Asked())
