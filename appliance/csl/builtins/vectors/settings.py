"""The trailing struct of DSD operations and of `@load_to_dsr`."""

from appliance.csl.builtins.fabric.queues import priority_of
from appliance.csl.builtins.fabric.reserved import check_free_microthread
from appliance.csl.builtins.fabric.tasks import activated, blockable, target_of
from appliance.csl.builtins.registry import Settings
from appliance.csl.builtins.vectors.dsds import as_u16
from appliance.csl.program.operations import Completion, OnControl, OperationSettings, Target
from appliance.csl.semantics.context.frames import Frame
from appliance.csl.semantics.expressions.evaluate import is_integer, operand_of
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.values import Value

OPTIONS = ("async", "activate", "unblock", "on_control", "index", "priority", "ut_id")


def operation_settings(settings: Settings, frame: Frame) -> OperationSettings:
    """What the struct says, checked; unknown options are left for the caller."""
    node = settings.node
    settings.check_machine("priority", "wse2")
    asynchronous = settings.take_bool("async")
    completion, target = _completion(settings, frame)
    if completion is not None and not asynchronous:
        frame.fail(node, f"'.{completion}' needs '.async = true'")
    on_control = _on_control(settings.take("on_control"), settings, frame)
    index = settings.take("index")
    microthread = settings.take("ut_id")
    return OperationSettings(
        asynchronous=asynchronous,
        completion=completion,
        target=target,
        on_control=on_control,
        index=None if index is None else operand_of(as_u16(index, node, frame), node, frame),
        priority=priority_of(settings, node, frame),
        microthread=None if microthread is None else _microthread(microthread, settings, frame),
    )


def _completion(settings: Settings, frame: Frame) -> tuple[Completion | None, Target | None]:
    activate, unblock = settings.take("activate"), settings.take("unblock")
    if activate is not None and unblock is not None:
        frame.fail(settings.node, "either '.activate' or '.unblock', not both")
    if activate is not None:
        target = activated(activate, settings.node, frame, (t.LOCAL_TASK,), "'.activate'")
        return Completion.ACTIVATE, target
    if unblock is not None:
        target = target_of(unblock, settings.node, frame, blockable(frame), "'.unblock'")
        return Completion.UNBLOCK, target
    return None, None


def _on_control(value: Value | None, settings: Settings, frame: Frame) -> OnControl | None:
    if value is None:
        return None
    inner = Settings(value, settings.node, frame, "'.on_control'")
    terminate = inner.take_bool("terminate")
    action, target = _completion(inner, frame)
    inner.finish(("terminate", "activate", "unblock"))
    if terminate and action is not None:
        text = f"'.on_control' is one of '.terminate' and '.{action}', which ends it too"
        frame.fail(settings.node, text)
    return OnControl(terminate=terminate, action=action, target=target)


def _microthread(value: Value, settings: Settings, frame: Frame) -> int:
    if not frame.world.session.is_wse3:
        frame.fail(settings.node, "'.ut_id' exists on wse3 only")
    raw = getattr(value, "value", None)
    if value.type is not t.MICROTHREAD and not is_integer(value.type):
        frame.fail(settings.node, f"'.ut_id' needs a 'ut_id', got '{value.type}'")
    if not isinstance(raw, int) or not 0 <= raw <= 7:
        frame.fail(settings.node, "'.ut_id' must be known at compile time, 0 to 7")
    check_free_microthread(raw, settings.node, frame)
    return raw
