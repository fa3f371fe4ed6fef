import { InvalidInput } from '@tributary/core';

const DEFAULT_PORT = 6379;
const DEFAULT_SENTINEL_PORT = 26_379;

/** How to reach Redis, as an operator configures it. */
export interface RedisAccess {
  /** `redis://` or `rediss://`; nodes of a cluster, or sentinels, are separated by commas. See `parseRedisAddress`. */
  readonly url: string;
  /** PEM text of the authority that signed the certificates of a `rediss://` address; default: those of Node. */
  readonly ca?: string;
  /** Present: `url` names sentinels, with the credentials, the database and the TLS of the servers that they watch. */
  readonly sentinel?: RedisSentinel;
}

export interface RedisSentinel {
  /** The name under which the sentinels watch the primary. */
  readonly primary: string;
  /** Credentials for the sentinels themselves. */
  readonly username?: string;
  readonly password?: string;
}

/** The options of an adapter that are for its connections. */
export function accessOf({ url, ca, sentinel }: RedisAccess): RedisAccess {
  return {
    url,
    ...(ca === undefined ? {} : { ca }),
    ...(sentinel === undefined ? {} : { sentinel }),
  };
}

/** The nodes of Redis, and the credentials for it. */
export interface RedisAddress {
  /** One server, several nodes of one cluster, or sentinels. */
  readonly nodes: readonly { readonly host: string; readonly port: number }[];
  readonly username: string | undefined;
  readonly password: string | undefined;
  readonly tls: boolean;
  readonly database: number;
  readonly ca?: string;
  readonly sentinel?: RedisSentinel;
}

/** The address with its authority and sentinels. `InvalidInput` as `parseRedisAddress`. */
export function redisAddress({ url, ca, sentinel }: RedisAccess): RedisAddress {
  return {
    ...parseRedisAddress(url, sentinel !== undefined),
    ...(ca === undefined ? {} : { ca }),
    ...(sentinel === undefined ? {} : { sentinel }),
  };
}

/**
 * Parses `redis://[user:password@]host[:port][/database]`, with `rediss://` for TLS. Several URLs, separated by commas, are
 * nodes of one cluster with the same credentials, or sentinels. `InvalidInput`, without the credentials, for any other text.
 */
export function parseRedisAddress(text: string, sentinels = false): RedisAddress {
  const urls = text.split(',').map((part) => parseUrl(part.trim()));
  const [first] = urls;
  if (first === undefined) throw new InvalidInput('no Redis URL');
  const same = (url: URL) =>
    url.protocol === first.protocol && url.username === first.username && url.password === first.password;
  if (!urls.every(same)) {
    throw new InvalidInput(
      'the nodes of a Redis cluster, and sentinels, must have the same scheme, user and password',
    );
  }
  const database = Number(first.pathname.slice(1));
  if (!Number.isInteger(database) || (urls.length > 1 && database !== 0 && !sentinels)) {
    throw new InvalidInput(
      'the path of a Redis URL is the number of a database; a cluster has database 0 only',
    );
  }
  return {
    nodes: urls.map(({ hostname, port }) => ({
      host: hostname.replace(/^\[|\]$/g, ''),
      port: port === '' ? (sentinels ? DEFAULT_SENTINEL_PORT : DEFAULT_PORT) : Number(port),
    })),
    username: decoded(first.username),
    password: decoded(first.password),
    tls: first.protocol === 'rediss:',
    database,
  };
}

/** The nodes without credentials, for logs. */
export function nodesOf({ nodes }: RedisAddress): string {
  return nodes.map(({ host, port }) => `${host}:${port}`).join(',');
}

function parseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^rediss?:$/.test(url.protocol) || url.hostname === '') {
    throw new InvalidInput('a Redis URL looks like redis://host:6379 or rediss://user:password@host:6379');
  }
  return url;
}

function decoded(part: string): string | undefined {
  return part === '' ? undefined : decodeURIComponent(part);
}
