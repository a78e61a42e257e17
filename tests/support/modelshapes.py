# SPDX-License-Identifier: Apache-2.0
"""Chat Completions as other servers speak them: what each does differently from the one that they are compatible with.

A scene is one of SHAPES: first a thought, a word and two calls of exec_command, then, once both were answered, a word.
"""
import json

CALLS = [{"cmd": "echo first"}, {"cmd": "echo second"}]


def chunk(doc, delta=None, finish=None, **more):
    return dict(doc, object="chat.completion.chunk", choices=[] if delta is None else [dict({"index": 0, "delta": delta, "finish_reason": finish}, **more.pop("choice", {}))], **more)


def vllm(doc):
    """Thoughts apart; a name with every piece and no id (its issue 18412); an empty list of calls in what has none; usage in a chunk of its own, null before."""
    doc = dict(doc, usage=None)
    yield chunk(doc, {"role": "assistant", "content": ""}, choice={"logprobs": None})
    yield chunk(doc, {"reasoning_content": "two things"}, choice={"stop_reason": None})
    yield chunk(doc, {"content": "Let me see."})
    for i, c in enumerate(CALLS):
        text = json.dumps(c)
        for piece in (text[:4], text[4:9], text[9:]):
            yield chunk(doc, {"tool_calls": [{"index": i, "function": {"name": "exec_command", "arguments": piece}}]})
    yield chunk(doc, {"content": ""}, "tool_calls", choice={"stop_reason": None})
    yield chunk(dict(doc, usage={"prompt_tokens": 7, "total_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": None}))


def llamacpp(doc):
    """No id in what it calls, arguments from their first brace on, timings, and a content of null."""
    yield chunk(doc, {"role": "assistant", "content": None})
    yield chunk(doc, {"reasoning_content": "two things"})
    yield chunk(doc, {"content": "Let me see."})
    for i, c in enumerate(CALLS):
        text = json.dumps(c)
        yield chunk(doc, {"tool_calls": [{"index": i, "id": "", "type": "function", "function": {"name": "exec_command", "arguments": "{"}}]})
        yield chunk(doc, {"tool_calls": [{"index": i, "function": {"arguments": text[1:]}}]})
    yield chunk(doc, {}, "tool_calls")
    yield chunk(dict(doc, usage={"completion_tokens": 2, "prompt_tokens": 7, "total_tokens": 9}, timings={"prompt_n": 7, "prompt_ms": 1.5}))


def ollama(doc):
    """Every call whole in a chunk, all with index 0 (its issue 15457), thoughts as `reasoning`, and the word stop in the end."""
    doc = dict(doc, system_fingerprint="fp_ollama")
    yield chunk(doc, {"role": "assistant", "content": "", "reasoning": "two things"})
    yield chunk(doc, {"role": "assistant", "content": "Let me see."})
    for i, c in enumerate(CALLS):
        yield chunk(doc, {"role": "assistant", "content": "", "tool_calls": [{"id": "call_%d" % i, "index": 0, "type": "function", "function": {"name": "exec_command", "arguments": json.dumps(c)}}]})
    yield chunk(doc, {"role": "assistant", "content": ""}, "stop")
    yield chunk(dict(doc, usage={"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}))


def litellm(doc):
    """No index at all, null for whatever is not there, content as parts, comments between events, and no [DONE]."""
    none = {"role": None, "function_call": None, "tool_calls": None, "audio": None, "provider_specific_fields": None}
    yield chunk(doc, dict(none, content="", reasoning_content="two things"))
    yield chunk(doc, dict(none, content=[{"type": "text", "text": "Let me "}, {"type": "text", "text": "see."}]))
    for i, c in enumerate(CALLS):
        yield chunk(doc, dict(none, content=None, tool_calls=[{"id": "toolu_%d" % i, "type": "function", "function": {"name": "exec_command", "arguments": json.dumps(c)}}]))
    yield chunk(dict(doc, usage={"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9, "prompt_tokens_details": {"cached_tokens": None}}), dict(none, content=None), "tool_calls")


SHAPES = {"vllm": vllm, "llamacpp": llamacpp, "ollama": ollama, "litellm": litellm}


def whole(scene, doc):
    """The same in one piece: its chunks put together as that server would."""
    m = {"role": "assistant", "content": "Let me see.", "tool_calls": [{"id": "w%d" % i, "type": "function", "function": {"name": "exec_command", "arguments": json.dumps(c)}} for i, c in enumerate(CALLS)]}
    for c in m["tool_calls"]:
        if scene == "llamacpp":
            c["id"] = ""
        if scene == "ollama":
            c.update(index=0, function={"name": "exec_command", "arguments": json.loads(c["function"]["arguments"])}) # which its own API has as an object
    m["reasoning" if scene == "ollama" else "reasoning_content"] = "two things"
    return dict(doc, object="chat.completion", choices=[{"index": 0, "message": m, "finish_reason": "stop" if scene == "ollama" else "tool_calls"}],
                usage={"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9})
