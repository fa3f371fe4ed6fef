from calls import URL, WRITE_KEY, send_all
from segment.analytics.client import Client

send_all(Client(WRITE_KEY, host=URL, upload_size=7, upload_interval=0.2, gzip=True, max_retries=12))
