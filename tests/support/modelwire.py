# SPDX-License-Identifier: Apache-2.0
"""The two APIs of a model's server as documents and streams, with every field that the published clients read.

A turn is what a script says (docs/agents.md): {"text", "reasoning", "calls": [{"name", "arguments" or "input", "id"}], "usage"}.
"""
import json, re

MODEL = "gpt-5.5"


# What the endpoint's own tools leave in a history: nobody has to answer it.
HOSTED = ("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call", "mcp_list_tools")


class Refused(Exception):
    """What the service answers with 400."""


# ---------------------------------------------------------------- requests, held to what the service demands

def _pairs(calls, outputs):
    """Every output has its call before it, every call its output."""
    for i in outputs:
        if i not in calls:
            raise Refused("No tool call found for function call output with call_id %s." % i)
    for i in calls:
        if i not in outputs:
            raise Refused("No tool output found for function call %s." % i)


def check_responses(body, kept):
    """kept: items of answers that were stored, by id. Returns all items that the model sees."""
    items = body.get("input")
    if isinstance(items, str):
        items = [{"type": "message", "role": "user", "content": items}]
    if not isinstance(items, list):
        raise Refused("Missing required parameter: 'input'.")
    before = body.get("previous_response_id")
    if before is not None:
        if before not in kept:
            raise Refused("Previous response with id '%s' not found." % before)
        items = kept[before] + items
    calls, outputs = [], []
    for i in items:
        kind = i.get("type", "message")
        if kind in HOSTED:
            if not i.get("id"):
                raise Refused("Missing required parameter: 'id' of a %s." % kind)
        elif kind == "mcp_approval_request":
            calls.append(i["id"])
        elif kind == "mcp_approval_response":
            if not isinstance(i.get("approve"), bool):
                raise Refused("Missing required parameter: 'approve'.")
            outputs.append(i["approval_request_id"])
        elif kind.endswith("_call_output"):
            outputs.append(i["call_id"])
        elif kind.endswith("_call"):
            calls.append(i["call_id"])
        elif kind == "message":
            if not isinstance(i.get("content"), (str, list)) or i.get("role") not in ("user", "assistant", "system", "developer"):
                raise Refused("Invalid value: a message has a role and a content.")
        elif kind not in ("reasoning", "compaction"):
            raise Refused("Invalid value: '%s'." % kind)
    _pairs(calls, outputs)
    for t in body.get("tools", []):
        if t.get("type") == "function" and (not t.get("name") or t.get("parameters", {}).get("type") != "object"):
            raise Refused("Invalid schema for function '%s'." % t.get("name"))
        if t.get("type") == "mcp" and not (t.get("server_label") and (t.get("server_url") or t.get("connector_id"))):
            raise Refused("Missing required parameter: 'server_label' and 'server_url' of an MCP server.")
    return items


def check_chat(body):
    if not isinstance(body.get("messages"), list):
        raise Refused("Missing required parameter: 'messages'.")
    waiting = []
    for m in body["messages"]:
        if m["role"] == "tool":
            if m["tool_call_id"] not in waiting:
                raise Refused("messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.")
            waiting.remove(m["tool_call_id"])
        elif waiting:
            raise Refused("An assistant message with 'tool_calls' must be followed by tool messages: %s." % ", ".join(waiting))
        waiting += [c["id"] for c in m.get("tool_calls") or []]
    if waiting:
        raise Refused("An assistant message with 'tool_calls' must be followed by tool messages: %s." % ", ".join(waiting))
    for t in body.get("tools", []):
        if t["type"] != "function" or t["function"].get("parameters", {"type": "object"}).get("type") != "object":
            raise Refused("Invalid schema for a function.")
    return body["messages"]


# ---------------------------------------------------------------- turns

def _operations(patch):
    """A patch as the operations of a hosted apply_patch tool."""
    kinds = {"Add": "create_file", "Update": "update_file", "Delete": "delete_file"}
    ops = []
    for line in patch.split("\n")[1:]:
        head = re.match(r"\*\*\* (Add|Update|Delete) File: (.*)", line)
        if head:
            ops.append({"type": kinds[head.group(1)], "path": head.group(2), "diff": ""})
        elif line != "*** End Patch" and ops:
            ops[-1]["diff"] += line + "\n"
    for o in ops:
        if o["type"] == "delete_file":
            del o["diff"]
    return ops


def _tool_type(body, name):
    for t in body.get("tools", []):
        if t.get("name", t["type"]) == name:
            return t["type"]
    return "function"


def call_id(rid, k, c):
    return c.get("id") or "call_%s_%d" % (rid, k)


def _function_arguments(c):
    if "input" in c:
        return json.dumps({"patch" if c["name"] == "apply_patch" else "input": c["input"]})
    args = c.get("arguments", {})
    return args if isinstance(args, str) else json.dumps(args)


def _usage(turn):
    u = turn.get("usage", {})
    i, o = u.get("input", 100), u.get("output", 7)
    return i, u.get("cached", 40), o, u.get("reasoning", 2), i + o


def response(rid, turn, body):
    out = []
    if "reasoning" in turn:
        item = {"type": "reasoning", "id": "rs_%s" % rid, "summary": [{"type": "summary_text", "text": turn["reasoning"]}]}
        if "reasoning.encrypted_content" in body.get("include", []):
            item["encrypted_content"] = "sealed"
        out.append(item)
    if "text" in turn:
        out.append({"type": "message", "id": "msg_%s" % rid, "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": turn["text"], "annotations": [], "logprobs": []}]})
    for k, c in enumerate(turn.get("calls", [])):
        kind, cid = _tool_type(body, c["name"]), call_id(rid, k, c)
        if kind == "apply_patch" and "input" in c:
            for n, op in enumerate(_operations(c["input"])):
                out.append({"type": "apply_patch_call", "id": "apc_%s_%d_%d" % (rid, k, n), "call_id": cid if not n else "%s_%d" % (cid, n),
                            "operation": op, "status": "completed"})
        elif kind == "custom" and "input" in c:
            out.append({"type": "custom_tool_call", "id": "ctc_%s_%d" % (rid, k), "call_id": cid, "name": c["name"], "input": c["input"]})
        else:
            out.append({"type": "function_call", "id": "fc_%s_%d" % (rid, k), "call_id": cid, "name": c["name"],
                        "arguments": _function_arguments(c), "status": "completed"})
    out += turn.get("output", [])
    i, cached, o, thought, total = _usage(turn)
    return {"id": "resp_" + rid, "object": "response", "created_at": 1700000000, "status": "completed", "background": False, "error": None,
            "incomplete_details": None, "instructions": body.get("instructions"), "max_output_tokens": None, "metadata": {},
            "model": body.get("model", MODEL), "output": out, "parallel_tool_calls": body.get("parallel_tool_calls", True),
            "previous_response_id": body.get("previous_response_id"), "reasoning": {"effort": None, "summary": None},
            "store": body.get("store", True), "temperature": 1.0, "text": body.get("text", {"format": {"type": "text"}}),
            "tool_choice": body.get("tool_choice", "auto"), "tools": body.get("tools", []), "top_p": 1.0, "truncation": "disabled",
            "usage": {"input_tokens": i, "input_tokens_details": {"cached_tokens": cached}, "output_tokens": o,
                      "output_tokens_details": {"reasoning_tokens": thought}, "total_tokens": total}}


def completion(rid, turn, body):
    m = {"role": "assistant", "content": turn.get("text"), "refusal": None, "annotations": []}
    calls = [{"id": call_id(rid, k, c), "type": "function", "function": {"name": c["name"], "arguments": _function_arguments(c)}}
             for k, c in enumerate(turn.get("calls", []))]
    if calls:
        m["tool_calls"] = calls
    i, cached, o, thought, total = _usage(turn)
    return {"id": "chatcmpl-" + rid, "object": "chat.completion", "created": 1700000000, "model": body.get("model", MODEL),
            "choices": [{"index": 0, "message": m, "logprobs": None, "finish_reason": "tool_calls" if calls else "stop"}],
            "usage": {"prompt_tokens": i, "completion_tokens": o, "total_tokens": total, "prompt_tokens_details": {"cached_tokens": cached},
                      "completion_tokens_details": {"reasoning_tokens": thought}}}


# ---------------------------------------------------------------- streams

def pieces(s, n=5):
    return [s[i:i + n] for i in range(0, len(s), n)]


def _message(item, at):
    part = item["content"][0]
    at = dict(at, content_index=0)
    yield "response.content_part.added", dict(at, part=dict(part, text=""))
    for d in pieces(part["text"]):
        yield "response.output_text.delta", dict(at, delta=d, logprobs=[])
    yield "response.output_text.done", dict(at, text=part["text"], logprobs=[])
    yield "response.content_part.done", dict(at, part=part)


def _reasoning(item, at):
    part = item["summary"][0]
    at = dict(at, summary_index=0)
    yield "response.reasoning_summary_part.added", dict(at, part=dict(part, text=""))
    for d in pieces(part["text"]):
        yield "response.reasoning_summary_text.delta", dict(at, delta=d)
    yield "response.reasoning_summary_text.done", dict(at, text=part["text"])
    yield "response.reasoning_summary_part.done", dict(at, part=part)


def _written(item, at, event, key):
    for d in pieces(item[key]):
        yield event + ".delta", dict(at, delta=d)
    yield event + ".done", dict(at, **{key: item[key]})


def _item_events(k, item):
    at, kind = {"output_index": k, "item_id": item.get("id", "")}, item["type"]
    begun = dict(item)
    if kind == "message":
        begun.update(content=[], status="in_progress")
        body = _message(item, at)
    elif kind == "reasoning":
        begun.update(summary=[])
        body = _reasoning(item, at)
    elif kind == "function_call":
        begun.update(arguments="", status="in_progress")
        body = _written(item, at, "response.function_call_arguments", "arguments")
    elif kind == "custom_tool_call":
        begun.update(input="")
        body = _written(item, at, "response.custom_tool_call_input", "input")
    elif kind in HOSTED:
        if "status" in begun:
            begun.update(status="in_progress")
        body = [("response.%s.%s" % (kind, word), dict(at)) for word in ("in_progress", "completed")]
    else:
        body = ()
    yield "response.output_item.added", {"output_index": k, "item": begun}
    yield from body
    yield "response.output_item.done", {"output_index": k, "item": item}


def response_events(r, shuffled=False):
    """shuffled: items side by side and the last begun first, as servers may that think of several things at once."""
    begun = dict(r, output=[], status="in_progress", usage=None)
    events = [("response.created", {"response": begun}), ("response.in_progress", {"response": begun})]
    rows = [list(_item_events(k, item)) for k, item in enumerate(r["output"])]
    if shuffled:
        rows.reverse()
        while any(rows):
            for row in rows:
                events += row[:1]
                del row[:1]
    else:
        events += [e for row in rows for e in row]
    events.append(("response.completed", {"response": r}))
    for n, (name, data) in enumerate(events):
        yield name, dict(data, type=name, sequence_number=n)


def chat_chunks(c, usage, shuffled=False):
    base = {"id": c["id"], "object": "chat.completion.chunk", "created": c["created"], "model": c["model"]}
    m = c["choices"][0]["message"]

    def chunk(delta, end=None):
        return dict(base, choices=[{"index": 0, "delta": delta, "logprobs": None, "finish_reason": end}])

    yield chunk({"role": "assistant", "content": "", "refusal": None})
    texts = [chunk({"content": d}) for d in pieces(m.get("content") or "")]
    rows = []
    for k, t in enumerate(m.get("tool_calls", [])):
        head = {"index": k, "id": t["id"], "type": "function", "function": {"name": t["function"]["name"], "arguments": ""}}
        rows.append([chunk({"tool_calls": [head]})] +
                    [chunk({"tool_calls": [{"index": k, "function": {"arguments": d}}]}) for d in pieces(t["function"]["arguments"])])
    if shuffled:
        rows.reverse()
        rows.append(texts)
        while any(rows):
            for row in rows:
                yield from row[:1]
                del row[:1]
    else:
        yield from texts
        for row in rows:
            yield from row
    yield chunk({}, c["choices"][0]["finish_reason"])
    if usage:
        yield dict(base, choices=[], usage=c["usage"])
