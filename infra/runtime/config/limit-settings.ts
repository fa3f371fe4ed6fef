import { duration, list, number, optional, type Parsed, rate } from './parse.ts';
import { setting } from './setting.ts';

const DAY = 86_400_000;

/** What clients may take of a server, and which pages may call it. */
export const LIMIT_SETTINGS = {
  eventRate: setting(
    'TRIBUTARY_EVENT_RATE',
    '',
    optional(rate(10_000_000)),
    'Events a second that one write key may send to one gateway; more is answered 429. Default: any number.',
  ),
  callRate: setting(
    'TRIBUTARY_CALL_RATE',
    '',
    optional(rate(10_000_000)),
    'Permitted calls a second of one credential, of everything but events, and at once as many as a minute allows; counted by all gateways together with REDIS_URL, else by each. Default: any number.',
  ),
  corsOrigins: setting(
    'TRIBUTARY_CORS_ORIGINS',
    '',
    origins(),
    'Web origins whose pages may call the platform API, comma-separated, * for any. Default: none.',
  ),
  corsEventOrigins: setting(
    'TRIBUTARY_CORS_EVENT_ORIGINS',
    '*',
    origins(),
    'Web origins whose pages may send events, comma-separated, * for any; none with the word none.',
  ),
  publicUrl: setting(
    'TRIBUTARY_PUBLIC_URL',
    '',
    optional(publicUrl()),
    'Where browsers reach this server, such as https://events.example.com: analytics.js is told to send there. Default: the scheme and host of the request that asks, which behind a TLS proxy are the inner ones unless TRUST_PROXY believes the proxy.',
  ),
  hsts: setting(
    'TRIBUTARY_HSTS',
    '',
    optional(duration(1_000, 3650 * DAY)),
    'For how long browsers are told to come by HTTPS alone (Strict-Transport-Security). Default: they are told nothing.',
  ),
  requestTimeout: setting(
    'TRIBUTARY_REQUEST_TIMEOUT',
    '30s',
    duration(100, 3_600_000),
    'How long a client may take to send a request.',
  ),
  headersTimeout: setting(
    'TRIBUTARY_HEADERS_TIMEOUT',
    '10s',
    duration(100, 3_600_000),
    'How long a client may take to send the headers of a request.',
  ),
  keepAliveTimeout: setting(
    'TRIBUTARY_KEEP_ALIVE_TIMEOUT',
    '72s',
    duration(100, 3_600_000),
    'How long a connection may be idle; longer than the load balancer in front keeps one.',
  ),
  maxConnections: setting(
    'TRIBUTARY_MAX_CONNECTIONS',
    '10000',
    number(1, 1_000_000),
    'Connections of one process at once. Where they are used up, an address (IPv6: a /64 network) with less than its share gets one of the address that has most; any other one is closed as it comes.',
  ),
} as const;

/** Scheme, host and port, as a browser writes them. */
function origins(): (value: string) => Parsed<readonly string[]> {
  const names = list();
  return (value) => {
    if (value === 'none') return { ok: true, value: [] };
    const parsed = names(value);
    const wrong = parsed.ok ? parsed.value.find((name) => name !== '*' && !isOrigin(name)) : undefined;
    return wrong === undefined
      ? parsed
      : { ok: false, message: `"${wrong}" is no origin, e.g. https://app.example.com` };
  };
}

function publicUrl(): (value: string) => Parsed<string> {
  return (value) => {
    const origin = value.replace(/\/$/, '');
    return isOrigin(origin)
      ? { ok: true, value: origin }
      : { ok: false, message: 'must be a scheme and a host, such as https://events.example.com' };
  };
}

function isOrigin(text: string): boolean {
  return /^https?:\/\/[^*]+$/.test(text) && URL.canParse(text) && new URL(text).origin === text;
}
