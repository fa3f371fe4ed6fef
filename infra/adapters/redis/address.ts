import { InvalidInput } from '@tributary/core';

const DEFAULT_PORT = 6379;

/** The nodes of Redis, and the credentials for it. */
export interface RedisAddress {
  /** One server, or several nodes of one cluster. */
  readonly nodes: readonly { readonly host: string; readonly port: number }[];
  readonly username: string | undefined;
  readonly password: string | undefined;
  readonly tls: boolean;
  readonly database: number;
}

/**
 * Parses `redis://[user:password@]host[:port][/database]`, with `rediss://` for TLS. Several URLs, separated by commas, are
 * nodes of one cluster with the same credentials. `InvalidInput`, without the credentials, for any other text.
 */
export function parseRedisAddress(text: string): RedisAddress {
  const urls = text.split(',').map((part) => parseUrl(part.trim()));
  const [first] = urls;
  if (first === undefined) throw new InvalidInput('no Redis URL');
  const same = (url: URL) =>
    url.protocol === first.protocol && url.username === first.username && url.password === first.password;
  if (!urls.every(same)) {
    throw new InvalidInput('the nodes of a Redis cluster must have the same scheme, user and password');
  }
  const database = Number(first.pathname.slice(1));
  if (!Number.isInteger(database) || (urls.length > 1 && database !== 0)) {
    throw new InvalidInput(
      'the path of a Redis URL is the number of a database; a cluster has database 0 only',
    );
  }
  return {
    nodes: urls.map(({ hostname, port }) => ({
      host: hostname.replace(/^\[|\]$/g, ''),
      port: port === '' ? DEFAULT_PORT : Number(port),
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
