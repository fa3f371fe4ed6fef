"""fakesnow as a server that answers as Snowflake does where loads depend on it: results as JSON, locks that are waited
for, a transaction that blocks others ended once it is idle, files of a stage that can be removed. It prints its port.
"""

import asyncio
import json
import re
import shutil
import socket
import time

import duckdb
import fakesnow.server as fake
import pyarrow as pa
import snowflake.connector.errors as errors
import uvicorn
from base64 import b64decode
from fakesnow.transforms import stage
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

# Snowflake takes five minutes.
IDLE_SECONDS = 1.0


def refused(error: duckdb.Error) -> errors.ProgrammingError:
    text = str(error)
    errno = 625 if "onflict" in text else 904 if isinstance(error, duckdb.BinderException) else 100132
    return errors.ProgrammingError(msg=text, errno=errno, sqlstate="22000")


def patched(run):
    async def run_in_threadpool(function, *args, **options):
        try:
            return await run(function, *args, **options)
        except duckdb.Error as error:
            raise refused(error) from None

    return run_in_threadpool


fake.run_in_threadpool = patched(fake.run_in_threadpool)


class Session:
    def __init__(self):
        self.turn = asyncio.Lock()
        self.used_at = time.monotonic()
        self.locked = None


sessions: dict[str, Session] = {}
holders: dict[str, str] = {}


def release(token: str) -> None:
    session = sessions.get(token)
    if session and session.locked and holders.get(session.locked) == token:
        del holders[session.locked]
        session.locked = None


async def undo(token: str) -> None:
    conn = fake.sessions.get(token)
    if conn:
        await fake.run_in_threadpool(conn.cursor().execute, "rollback")
    release(token)


async def end_idle(token: str) -> None:
    """Ends the transactions of other sessions that are idle: also a change of a table waits for them."""
    for holder in set(holders.values()) - {token}:
        other = sessions[holder]
        if not other.turn.locked() and time.monotonic() - other.used_at > IDLE_SECONDS:
            async with other.turn:
                await undo(holder)


async def take(token: str, lock: str) -> None:
    while holders.get(lock, token) != token:
        await end_idle(token)
        await asyncio.sleep(0.01)
    holders[lock] = token
    sessions[token].locked = lock


# DuckDB has temporary tables in a catalog of their own.
TEMPORARY = re.compile(r'"[^"]+"\."[^"]+"\.("_TRIBUTARY_(?:ROWS|NEWS|CLOSING)")')


def text_of(value):
    if value is None or isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def as_json(answer: dict) -> dict:
    data = answer.get("data") or {}
    arrow = data.pop("rowsetBase64", None)
    if arrow is not None:
        data["queryResultFormat"] = "json"
        rows = pa.ipc.open_stream(b64decode(arrow)).read_all().to_pylist() if arrow else []
        names = [column["name"] for column in data.get("rowtype", [])]
        data["rowset"] = [[text_of(row[name]) for name in names] for row in rows]
        if "CHARACTER_MAXIMUM_LENGTH" in names:
            # A column that was renamed has lost its length.
            for row in data["rowset"]:
                row[3] = "16777216" if row[2] == "TEXT" else row[3]
    return answer


def succeeded(rows) -> JSONResponse:
    return JSONResponse({"success": True, "data": {"rowtype": [{"name": "status"}], "rowset": rows}})


async def login(request: Request) -> JSONResponse:
    # Temporary tables are named without their schema.
    scope = {**request.scope, "query_string": request.scope["query_string"] + b"&schemaName=PUBLIC"}
    return await fake.login_request(Request(scope, request.receive))


async def query(request: Request) -> JSONResponse:
    token = fake.to_token(request)
    sent = json.loads(await request.body())
    sql = TEMPORARY.sub(r"\1", sent["sqlText"].strip())
    # `files` are known for external stages only.
    sql = sent["sqlText"] = re.sub(r"^(copy into .*/) files = \('([^']+)'\)", r"\1\2", sql)
    request._body = json.dumps(sent).encode()
    session = sessions.setdefault(token, Session())
    async with session.turn:
        session.used_at = time.monotonic()
        await end_idle(token)
        if removed := re.match(r"remove @(\S+?)/(\S+)$", sql):
            name, path = removed.groups()
            fqname = ".".join(part.strip('"') for part in name.split("."))
            shutil.rmtree(stage.internal_dir(fqname, path), ignore_errors=True)
            return succeeded([["removed"]])
        if sql.startswith("drop stage "):
            return succeeded([["dropped"]])
        if locking := re.match(r"update (\S*_TRIBUTARY_LOCK\S*) ", sql):
            await take(token, locking.group(1))
        answer = await fake.query_request(request)
        session.used_at = time.monotonic()
        if sql in ("commit", "rollback"):
            release(token)
        body = json.loads(answer.body)
        return JSONResponse(as_json(body), status_code=answer.status_code)


async def leave(request: Request) -> JSONResponse:
    token = fake.to_token(request)
    session = sessions.get(token)
    if session:
        async with session.turn:
            await undo(token)
    return await fake.session(request)


mine = {"/session/v1/login-request": login, "/queries/v1/query-request": query, "/session": leave}
routes = [
    Route(route.path, mine.get(route.path, route.endpoint), methods=route.methods) for route in fake.routes
]
listening = socket.socket()
listening.bind(("127.0.0.1", 0))
listening.listen()
fake.logger.setLevel("WARNING")
print(listening.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="warning")).run(sockets=[listening])
