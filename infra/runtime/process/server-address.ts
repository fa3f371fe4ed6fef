import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { hasCode, type Logger, messageOf, NO_LOGGER } from '@tributary/core';

/** Where the server of a data folder answers. */
export interface ServerAddress {
  readonly pid: number;
  /** For programs of this machine, without a trailing slash. */
  readonly url: string;
  readonly adminUrl: string;
}

/**
 * Writes the address of the server of a data folder, for commands beside it. The server holds the lock of the folder, so
 * there is one address. `close` removes it; a server that was killed leaves it, and `addressOf` does not return it.
 */
export function publishAddress(
  folder: string,
  address: ServerAddress,
  logger: Pick<Logger, 'warn'> = NO_LOGGER,
): { close(): void } {
  const file = fileIn(folder);
  try {
    writeFileSync(`${file}.new`, JSON.stringify(address), { mode: 0o600 });
    renameSync(`${file}.new`, file);
  } catch (error) {
    // The disk may be full, and the server has to run nevertheless.
    rmSync(`${file}.new`, { force: true });
    logger.warn(
      { file, error: messageOf(error) },
      'the address of this server could not be written: commands beside it need its address in PORT',
    );
  }
  return { close: () => withdrawAddress(folder) };
}

/** Removes the address that an earlier server of the folder has left. */
export function withdrawAddress(folder: string): void {
  rmSync(fileIn(folder), { force: true });
}

/**
 * The address of the server that runs on a data folder; undefined where none runs. The number of a killed server's process
 * may be that of another one by now, so a caller has to expect that nothing, or another server, answers there.
 */
export function addressOf(folder: string): ServerAddress | undefined {
  const address = readAddress(fileIn(folder));
  return address !== undefined && isAlive(address.pid) ? address : undefined;
}

/** The address by which programs of this machine reach a server that may listen on every address. */
export function onThisMachine(url: string): string {
  return url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');
}

function fileIn(folder: string): string {
  return join(folder, 'server.json');
}

function readAddress(file: string): ServerAddress | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as ServerAddress;
  } catch {
    return undefined; // missing, of another user, or cut off by a full disk: as if no server ran
  }
}

/** Signal 0 tests whether a process exists; EPERM: it is another user's. */
export function isAlive(pid: number): boolean {
  try {
    return pid > 0 && process.kill(pid, 0);
  } catch (error) {
    return hasCode(error, 'EPERM');
  }
}
