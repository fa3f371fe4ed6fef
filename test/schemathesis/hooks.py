"""What the description cannot tell schemathesis: who calls from where, and what there is for a good call to name."""

import itertools
import os
import uuid

import schemathesis
from schemathesis.generation import GenerationMode

ORG_ID = int(os.environ["ORG_ID"])
addresses = itertools.count()


@schemathesis.hook
def before_call(context, case, kwargs):
    """Each call comes from an address of its own: one that fails to authenticate a hundred times is slowed down. And
    what names something names what is there, so that good calls come as far as they can."""
    headers = {**(case.headers or {})}
    number = next(addresses)
    headers["X-Forwarded-For"] = f"10.{number // 65536 % 256}.{number // 256 % 256}.{number % 256}"
    workspace = (case.path_parameters or {}).get("workspaceId")
    for name, value in list(headers.items()):
        if name.lower() == "x-workspace-id" and workspace is not None and is_uuid(value):
            headers[name] = workspace
    if is_good(case):
        if case.query:
            case.query.pop("cursor", None)  # nobody can make one up
            case.query.pop("check", None)  # a contract that another call made may block the event
        if case.operation.path.startswith("/cdp/"):
            headers["orgId"] = str(ORG_ID)
            if any(name.lower() == "scopes" for name in headers):
                headers["scopes"] = "profile.read,profile.write,profile.delete"
            case.body = with_known_names(case.body)
        body = without_prototypes(case.body)
        if body != case.body:  # what is set counts as made up anew, also where there was none
            case.body = body
    # A value extracted from an answer may be a number, which the underlying client refuses.
    case.headers = {name: str(value) for name, value in headers.items()}


def without_prototypes(value):
    """No JSON that is sent here may hold this key, at any depth, which no schema of a free object says."""
    if isinstance(value, dict):
        return {key: without_prototypes(member) for key, member in value.items() if key != "__proto__"}
    if isinstance(value, list):
        return [without_prototypes(item) for item in value]
    return value


def is_good(case):
    return case.meta is None or case.meta.generation.mode == GenerationMode.POSITIVE


def is_uuid(value):
    try:
        uuid.UUID(str(value))
    except ValueError:
        return False
    return True


def with_known_names(body):
    if not isinstance(body, dict):
        return body
    known = {"orgId": ORG_ID}
    if body.get("region") is not None:
        known["region"] = "eu"
    if body.get("regions") is not None:
        known["regions"] = ["eu"]
    return {**body, **known}
