import { readFile } from 'node:fs/promises';
import { Redis } from 'ioredis';

const RIGHTS = new URL('../../docs/operations/rights.md', import.meta.url);
const USER = { name: 'tributary', password: 'of the tests' };

/** Removes every key with the prefix in its name, ignoring the braces of a hash tag. */
export async function removeKeys(url: string, prefix: string): Promise<void> {
  const client = new Redis(asAnybody(url));
  try {
    for (const match of [`${prefix}*`, `{${prefix}*`]) {
      for await (const keys of client.scanStream({ match, count: 1_000 })) {
        // One by one: the keys of a cluster are in many slots.
        await Promise.all((keys as string[]).map((key) => client.unlink(key)));
      }
    }
  } finally {
    client.disconnect();
  }
}

/** One command from a new client. */
export async function command(url: string, name: string, ...args: string[]): Promise<unknown> {
  const client = new Redis(asAnybody(url));
  client.on('error', () => {}); // the failed command has the reason too
  try {
    return await client.call(name, ...args);
  } finally {
    client.disconnect();
  }
}

/**
 * The server for a user as docs/operations/rights.md creates it: with the documented commands, on keys and channels of
 * any `freshPrefix`, and nothing else.
 */
export async function withDocumentedRights(url: string): Promise<string> {
  const [, line = ''] = /^(ACL SETUSER .+)$/m.exec(await readFile(RIGHTS, 'utf8')) ?? [];
  const [acl = '', ...args] = line.split(' ').map((word) => word.replace(/^([~&]\{?)tributary\./, '$1t'));
  await command(url, acl, ...args.map((word) => (word.startsWith('>') ? `>${USER.password}` : word)));
  const signedIn = new URL(url);
  signedIn.username = USER.name;
  signedIn.password = USER.password;
  return signedIn.href;
}

/** The test's server grants unauthenticated clients every right. */
function asAnybody(url: string): string {
  const open = new URL(url);
  open.username = '';
  open.password = '';
  return open.href;
}
