import type { RunningEngine } from '../engines/index.ts';
import { engineOfFile } from './own-engines.ts';

/** A PostgreSQL server for one spec file, which stops it; see `engineOfFile`. */
export function postgresServer(): Promise<RunningEngine | undefined> {
  return engineOfFile('postgres');
}

/** The settings by which a destination connects to the server. */
export function postgresSettings(server: RunningEngine | undefined) {
  const url = new URL(server?.url ?? 'postgres://127.0.0.1');
  return {
    host: url.hostname,
    port: Number(url.port),
    database: url.pathname.slice(1),
    username: decodeURIComponent(url.username),
    ...(url.password && { password: decodeURIComponent(url.password) }),
    tls: false,
  };
}
