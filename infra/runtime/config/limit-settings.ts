import { QUOTA_NAMES, QUOTAS, type QuotaName, type Quotas } from '@tributary/core';
import { duration, list, number, optional, type Parsed, rate, type Setting, setting } from './setting.ts';

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

type QuotaKey<Name extends QuotaName = QuotaName> = `quota:${Name}`;

const keyOf = <Name extends QuotaName>(name: Name): QuotaKey<Name> => `quota:${name}`;

/** One for each quota; more than it is answered 409, and what is there already stays. */
const ONE_EACH = Object.fromEntries(
  QUOTA_NAMES.map((name) => [
    keyOf(name),
    setting(
      `TRIBUTARY_QUOTA_${name.toUpperCase()}`,
      String(QUOTAS[name].fallback),
      number(0, 100_000_000_000),
      `${QUOTAS[name].counts}, at most.`,
    ),
  ]),
) as { readonly [Key in QuotaKey]: Setting<number> };

/** How much tenants may put into the catalog, and how fast. */
export const QUOTA_SETTINGS = {
  changeRate: setting(
    'TRIBUTARY_CHANGE_RATE',
    '10',
    rate(10_000_000),
    'Changes a second of one workspace, or of what an organization has beside its workspaces, that one gateway takes, and at once as many as a minute allows; more is answered 429. A change of more than 16 KiB counts for one each 16 KiB. What removes something is not counted.',
  ),
  accountChangeRate: setting(
    'TRIBUTARY_CHANGE_RATE_PER_ACCOUNT',
    '20',
    rate(10_000_000),
    'The same of one account and the keys it made, in all workspaces.',
  ),
  ...ONE_EACH,
} as const;

export function quotasOf(config: { readonly [Key in QuotaKey]: number }): Quotas {
  return Object.fromEntries(QUOTA_NAMES.map((name) => [name, config[keyOf(name)]])) as Quotas;
}
