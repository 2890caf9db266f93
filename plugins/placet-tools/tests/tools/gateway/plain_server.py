"""A small MCP server of JSON lines, without the SDK: its bytes, faults and tools are the test's.

`plain_server.py FOLDER`: `FOLDER/tools.json` has its tools, read at each `tools/list`; a call of a
tool appends its arguments to `FOLDER/outside`. What a tool does depends on its name.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
OUTSIDE = os.open(FOLDER / "outside", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
PAGE = 2


def write(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def answer(number: object, result: object) -> None:
    write(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}))


def listed(number: object, params: Any) -> None:
    tools = json.loads((FOLDER / "tools.json").read_text())
    begin = int(params.get("cursor", 0))
    page = {"tools": tools[begin : begin + PAGE]}
    if begin + PAGE < len(tools):
        page["nextCursor"] = str(begin + PAGE)
    answer(number, page)


def called(number: object, params: Any) -> None:
    name, arguments = params["name"], params["arguments"]
    os.write(OUTSIDE, (json.dumps([name, arguments], sort_keys=True) + "\n").encode())
    os.fsync(OUTSIDE)
    match name:
        case "die":
            os._exit(3)
        case "hang":
            time.sleep(600)
        case "slow":
            write('{"jsonrpc":"2.0","method":"begun"}')
            time.sleep(0.3)
            answer(number, {"content": [{"type": "text", "text": "slow"}]})
        case "fail":
            answer(number, {"content": [{"type": "text", "text": "it broke"}], "isError": True})
        case "unknown":
            error = {"code": -32602, "message": "there is no such tool"}
            write(json.dumps({"jsonrpc": "2.0", "id": number, "error": error}))
        case "internal":
            error = {"code": -32603, "message": "it broke"}
            write(json.dumps({"jsonrpc": "2.0", "id": number, "error": error}))
        case "bytes":
            body = '{ "content" : [],"x": 1.50, "y":1e2 ,"z":"\\u00e9" }'
            write(f'{{"id":{json.dumps(number)},"jsonrpc":"2.0","result":{body}}}')
        case "large":
            answer(number, {"content": [{"type": "text", "text": "x" * arguments["size"]}]})
        case "meta":
            text = json.dumps(params.get("_meta"))
            answer(number, {"content": [{"type": "text", "text": text}]})
        case _:
            answer(number, {"content": [{"type": "text", "text": f"{name} ran"}]})


def main() -> None:
    for line in sys.stdin:  # a carriage return ends a line here too
        try:
            message = json.loads(line)
        except ValueError:
            continue
        number, method = message.get("id"), message.get("method")
        match method:
            case "initialize":
                if (FOLDER / "garbage").exists():
                    write("Welcome to the server!")
                    write("[1, 2]")
                    write('{"jsonrpc":"2.0","id":5')
                protocol = message["params"]["protocolVersion"]
                info = {"name": "plain", "version": "1"}
                capabilities = {"tools": {"listChanged": True}}
                answer(
                    number,
                    {
                        "protocolVersion": protocol,
                        "capabilities": capabilities,
                        "serverInfo": info,
                    },
                )
            case "tools/list":
                listed(number, message.get("params") or {})
            case "tools/call":
                called(number, message["params"])
            case "changed":  # of the tests: the list of tools has changed
                write('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')
                answer(number, {})
            case "echo":
                write(f'{{"jsonrpc": "2.0" ,"id":{json.dumps(number)}, "result": {line.strip()} }}')
            case None | "notifications/initialized":
                pass
            case _:
                error = {"code": -32601, "message": "unknown"}
                write(json.dumps({"jsonrpc": "2.0", "id": number, "error": error}))


if (FOLDER / "dead").exists():
    sys.exit(7)
main()
