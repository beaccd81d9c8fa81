"""What schemathesis cannot know of requests that the document allows: a conversation has an order, and names refer to
each other. Such requests are mended here. Those that the document forbids are sent as they are.
"""

import json

import schemathesis

# A tool of the agent's own: clients' tools have other names.
OWN_TOOL = "calc"


@schemathesis.hook
def before_call(_context, case, _kwargs):
    is_allowed = case.meta is not None and case.meta.generation.mode.is_positive
    if is_allowed and isinstance(case.body, dict):
        is_response = case.path == "/v1/responses"
        mend(case.body, "input" if is_response else "messages", items_of if is_response else parts_of)
        if is_response:
            # The answer to a key may be of a response that was deleted since.
            case.headers.pop("Idempotency-Key", None)
            if case.meta.phase.name.value == "stateful":
                # Nothing goes on with a response that is not kept.
                case.body.pop("store", None)


def mend(body: dict, field: str, all_of) -> None:
    """Makes one conversation of what a field has, and lets names refer to what is there."""
    if isinstance(body.get(field), list):
        body[field] = [*(part for said in body[field] for part in all_of(said)), {"role": "user", "content": "Hello?"}]
    elif isinstance(body.get(field), str) and not body[field].strip():
        body[field] = "?"
    # Ids of responses are known to those who got them.
    body.pop("previous_response_id", None)
    names = mend_tools(body.get("tools") or [])
    if isinstance(body.get("tool_choice"), dict) or body.get("tool_choice") == "required":
        body["tool_choice"] = "required" if names else "auto"


def arguments(text) -> str:
    """Arguments are JSON in a text."""
    try:
        return text if isinstance(json.loads(text), dict) else "{}"
    except (TypeError, ValueError):
        return "{}"


def parts_of(message: dict):
    """A message, with the call that it answers before it, or the results of its calls behind it."""
    if message["role"] == "tool":
        function = {"name": "f", "arguments": "{}"}
        call = {"id": message["tool_call_id"], "type": "function", "function": function}
        yield {"role": "assistant", "content": None, "tool_calls": [call]}
    if message["role"] == "user":
        message = {**message, "content": message["content"] if is_said(message["content"]) else "?"}
    calls = message.get("tool_calls") or [] if message["role"] == "assistant" else []
    calls = [{**call, "id": f"call-{index}"} for index, call in enumerate(calls)]
    for call in calls:
        call["function"] = {**call["function"], "arguments": arguments(call["function"]["arguments"])}
    yield {**message, "tool_calls": calls} if calls else message
    for call in calls:
        yield {"role": "tool", "tool_call_id": call["id"], "content": "done"}


def items_of(item: dict):
    """The same of the items of a response's input."""
    kind = item.get("type") or "message"
    call = {"type": "function_call", "call_id": item.get("call_id"), "name": "f", "arguments": "{}"}
    if kind == "function_call_output":
        yield call
    if kind == "message" and item["role"] == "user" and not is_said(item["content"]):
        item = {**item, "content": "?"}
    yield {**item, "arguments": arguments(item.get("arguments"))} if kind == "function_call" else item
    if kind == "function_call":
        yield {"type": "function_call_output", "call_id": item["call_id"], "output": "done"}


def is_said(content) -> bool:
    """Whether a content has text."""
    if isinstance(content, str):
        return bool(content.strip())
    return any(part.get("text", part.get("refusal", "")).strip() for part in content)


def mend_tools(tools: list) -> list[str]:
    """Gives each tool a name of its own."""
    names = []
    for index, tool in enumerate(tools):
        named = tool.get("function") or tool
        if named["name"] in [OWN_TOOL, *names]:
            named["name"] = f"tool-{index}"
        names.append(named["name"])
    return names
