import { QUOTA_NAMES, QUOTAS, type QuotaName, type Quotas } from '@tributary/core';
import {
  duration,
  list,
  memory,
  number,
  optional,
  type Parsed,
  rate,
  type Setting,
  setting,
} from './setting.ts';

const DAY = 86_400_000;

/** Limits of clients, and the web origins that may call the API. */
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
    'Permitted calls a second of one credential, of everything but events, and at once as many as a minute allows; counted by all gateways together with REDIS_URL, else by each. Default: 100 at each gateway, and any number for the client keys of the profile API.',
  ),
  largeProfileRate: setting(
    'TRIBUTARY_LARGE_PROFILE_RATE',
    '1048576',
    number(65_536, 1_000_000_000),
    'Characters of large profiles a second that one organization may rewrite through the API of one gateway, and 4 times as many at once; more is answered 429. What a call rewrites beyond 32 KiB counts, and a quarter of what a search reads beyond it.',
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
    'Where browsers reach this server, such as https://events.example.com; the configuration of analytics.js names it, and mails with a link that confirms an address, which wait without it. Default: the scheme and host of the request, which behind a TLS proxy are the inner ones unless TRUST_PROXY names the proxy.',
  ),
  hstsMs: setting(
    'TRIBUTARY_HSTS',
    '',
    optional(duration(1_000, 3650 * DAY)),
    'Value of max-age in Strict-Transport-Security: how long browsers use HTTPS alone. Default: the header is not sent.',
  ),
  requestTimeoutMs: setting(
    'TRIBUTARY_REQUEST_TIMEOUT',
    '30s',
    duration(100, 3_600_000),
    'How long a client may take to send a request.',
  ),
  headersTimeoutMs: setting(
    'TRIBUTARY_HEADERS_TIMEOUT',
    '10s',
    duration(100, 3_600_000),
    'How long a client may take to send the headers of a request.',
  ),
  keepAliveTimeoutMs: setting(
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

/** Origins (scheme, host and port) as browsers send them. */
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

/** One setting for each quota. Beyond it requests are answered 409; existing entities stay. */
const QUOTA_BY_NAME = Object.fromEntries(
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

/** Quotas and rates of changes of the catalog. */
export const QUOTA_SETTINGS = {
  changeRate: setting(
    'TRIBUTARY_CHANGE_RATE',
    '10',
    rate(10_000_000),
    'Changes a second of one workspace, or of what an organization has beside its workspaces, that one gateway takes, and at once as many as a minute allows; more is answered 429. A change of more than 16 KiB counts for one each 16 KiB. Removals are not counted.',
  ),
  accountChangeRate: setting(
    'TRIBUTARY_CHANGE_RATE_PER_ACCOUNT',
    '20',
    rate(10_000_000),
    'The same of one account and the keys it made, in all workspaces.',
  ),
  ...QUOTA_BY_NAME,
} as const;

export function quotasOf(config: { readonly [Key in QuotaKey]: number }): Quotas {
  return Object.fromEntries(QUOTA_NAMES.map((name) => [name, config[keyOf(name)]])) as Quotas;
}

/** Resources of transformations. */
export const SANDBOX_SETTINGS = {
  sandboxProcesses: setting(
    'TRIBUTARY_SANDBOX_PROCESSES',
    '2',
    number(1, 64),
    'Processes that run transformations: so many for the usual events, and so many for those of slow transformations. They start with the first such event.',
  ),
  sandboxTimeMs: setting(
    'TRIBUTARY_SANDBOX_TIME',
    '100ms',
    duration(10, 1_000),
    'How long a transformation may take for one event, and its source to load. The same on every process: an event near the limit may pass one of them and not another.',
  ),
  sandboxMemoryMib: setting(
    'TRIBUTARY_SANDBOX_MEMORY',
    '64MiB',
    memory(16, 512),
    'Memory that a transformation may take, up to 512MiB. A process that runs transformations takes four times as much and 256 MiB at most.',
  ),
  sandboxUid: setting(
    'TRIBUTARY_SANDBOX_UID',
    '65534',
    number(0, 4_294_967_294),
    'User and group of those processes, and of those of the Segment pack, where Tributary runs as root; 0: root too. Where that user cannot read what they need, they run as Tributary does, and the log says so.',
  ),
} as const;
