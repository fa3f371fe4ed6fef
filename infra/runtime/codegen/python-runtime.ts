/** The part of a generated client in Python that is the same for every plan: the checks before a call. */
export const PYTHON_RUNTIME = `from __future__ import annotations

import datetime
import decimal
import ipaddress
import math
import re
import uuid
from typing import Any, Dict, List, Literal, Mapping, Optional, TypedDict, Union

__all__ = ["TrackingPlan", "TrackingPlanError"]


class TrackingPlanError(ValueError):
    """A call does not match its contract, so nothing was sent. \`faults\` says what is wrong, by place."""

    def __init__(self, call: str, faults: List[str]) -> None:
        super().__init__(call + ": " + "; ".join(faults))
        self.faults = faults


_MESSAGE = {"user_id", "anonymous_id", "context", "timestamp", "integrations", "message_id"}


def _message(given: Mapping[str, Any]) -> Dict[str, Any]:
    """The fields of a call beside its values. An SDK may write into the context, so it gets a copy."""
    unknown = sorted(set(given) - _MESSAGE)
    if unknown:
        raise TypeError("unexpected arguments: " + ", ".join(unknown))
    fields = {name: value for name, value in given.items() if value is not None}
    if "context" in fields:
        fields["context"] = dict(fields["context"])
    return fields


def _checked(call: str, values: Optional[Mapping[str, Any]], rule: Mapping[str, Any]) -> Dict[str, Any]:
    given = {} if values is None else values
    faults: List[str] = []
    _check(given, rule, "", faults)
    if faults:
        raise TrackingPlanError(call, faults)
    return dict(given)


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, (float, decimal.Decimal)):
        if not math.isfinite(value):
            return "not a finite number"
        return "integer" if value == int(value) else "number"
    if isinstance(value, (str, datetime.date)):
        return "string"
    if isinstance(value, Mapping):
        return "object"
    return "array" if isinstance(value, (list, tuple)) else type(value).__name__


def _check(value: Any, rule: Mapping[str, Any], path: str, faults: List[str]) -> None:
    kind = _type_of(value)
    types = rule.get("types")
    if types is not None and kind not in types and not (kind == "integer" and "number" in types):
        faults.append((path or "/") + " must be " + " or ".join(types or ["absent"]) + ", not " + kind)
        return
    if "values" in rule and not any(_is_same(value, known) for known in rule["values"]):
        faults.append((path or "/") + " must be one of " + repr(rule["values"]))
        return
    size = None
    if kind in ("integer", "number"):
        size = value
    elif kind == "string" and isinstance(value, str):
        if "format" in rule and not _has_format(value, rule["format"]):
            faults.append(path + " must be a valid " + rule["format"])
        size = len(value)
    elif kind == "array":
        for index, item in enumerate(value):
            _check(item, rule.get("items", {}), path + "/" + str(index), faults)
        size = len(value)
    elif kind == "object":
        _check_fields(value, rule, path, faults)
    if size is not None:
        _check_bounds(kind, size, rule.get("bounds", {}), path, faults)


def _check_fields(value: Mapping[str, Any], rule: Mapping[str, Any], path: str, faults: List[str]) -> None:
    fields = rule.get("fields", {})
    for name, (required, inner) in fields.items():
        if name in value:
            _check(value[name], inner, path + "/" + name, faults)
        elif required:
            faults.append(path + "/" + name + " is required")
    rest = rule.get("rest", {})
    for name in value:
        if not isinstance(name, str):
            faults.append(path + "/" + repr(name) + " must be a text")
        elif name in fields:
            continue
        elif rest is False:
            faults.append(path + "/" + name + " is not declared")
        else:
            _check(value[name], rest, path + "/" + name, faults)


_UNITS = {"string": "Length", "array": "Items"}


def _check_bounds(kind: str, size: Any, bounds: Mapping[str, float], path: str, faults: List[str]) -> None:
    unit = _UNITS.get(kind)
    low, high = ("minimum", "maximum") if unit is None else ("min" + unit, "max" + unit)
    if low in bounds and size < bounds[low]:
        faults.append("%s must have %s %s" % (path, low, bounds[low]))
    if high in bounds and size > bounds[high]:
        faults.append("%s must have %s %s" % (path, high, bounds[high]))
    if unit is None and "exclusiveMinimum" in bounds and size <= bounds["exclusiveMinimum"]:
        faults.append("%s must be above %s" % (path, bounds["exclusiveMinimum"]))
    if unit is None and "exclusiveMaximum" in bounds and size >= bounds["exclusiveMaximum"]:
        faults.append("%s must be below %s" % (path, bounds["exclusiveMaximum"]))


def _is_same(value: Any, known: Any) -> bool:
    if isinstance(value, bool) or isinstance(known, bool):
        return value is known
    return bool(value == known)


_DATE = r"\\d{4}-\\d{2}-\\d{2}"
_PATTERNS = {
    "date": re.compile(_DATE),
    "date-time": re.compile(_DATE + r"[Tt ]\\d{2}:\\d{2}:\\d{2}(\\.\\d+)?([Zz]|[+-]\\d{2}(:?\\d{2})?)"),
    "email": re.compile(r"[^\\s@]+@[^\\s@]+"),
    "uri": re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\\S*"),
    "url": re.compile(r"(https?|ftp)://\\S+", re.IGNORECASE),
}


def _has_format(value: str, name: str) -> bool:
    try:
        if name == "uuid":
            return str(uuid.UUID(value)) == value.lower().replace("urn:uuid:", "")
        if name == "ipv4":
            return bool(ipaddress.IPv4Address(value))
        if name == "ipv6":
            return bool(ipaddress.IPv6Address(value))
    except ValueError:
        return False
    return name not in _PATTERNS or _PATTERNS[name].fullmatch(value) is not None
`;
