"""What a sender in Python is told, and the fields of one round's calls, the same from every SDK."""
import datetime
import sys
import time

URL, WRITE_KEY, NAME, ROUNDS = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])


def calls_of(number):
    said = {"round": number, "text": "Grüße 漢字 🙂", "nested": {"list": [1, "two", True], "price": 12.5}}
    common = {
        "context": {"app": {"name": "Shop", "version": "1.2"}},
        "integrations": {"All": True, "Elsewhere": False},
        "timestamp": datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=datetime.timezone.utc),
        "anonymous_id": NAME + "-device",
    }
    user = NAME + "-user"
    return [
        ("track", (user, "Order Completed"), {"properties": said, **common}),
        ("identify", (user,), {"traits": {**said, "plan": "pro"}, **common}),
        ("page", (user, "Docs", "Home"), {"properties": {**said, "url": "https://shop.example/"}, **common}),
        ("group", (user, "acme"), {"traits": {**said, "employees": 17}, **common}),
    ]


def send_all(client):
    """Sends each round, tells when half of them are on their way, and ends once the SDK is done."""
    for number in range(ROUNDS):
        if number == ROUNDS // 2:
            print("half", flush=True)
        for name, arguments, fields in calls_of(number):
            # Each call has a context of its own: the SDK writes into it.
            getattr(client, name)(*arguments, **{**fields, "context": dict(fields["context"])})
        time.sleep(0.02)
    client.flush()
    client.join()
