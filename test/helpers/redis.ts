import { Redis } from 'ioredis';

/** Removes every key whose name begins with the prefix, braces of a hash tag aside. */
export async function removeKeys(url: string, prefix: string): Promise<void> {
  const client = new Redis(url);
  try {
    for (const match of [`${prefix}*`, `{${prefix}*`]) {
      for await (const keys of client.scanStream({ match, count: 1_000 })) {
        // One by one: those of a cluster are in many slots.
        await Promise.all((keys as string[]).map((key) => client.unlink(key)));
      }
    }
  } finally {
    client.disconnect();
  }
}

/** One command from a client of its own. */
export async function command(url: string, name: string, ...args: string[]): Promise<unknown> {
  const client = new Redis(url);
  try {
    return await client.call(name, ...args);
  } finally {
    client.disconnect();
  }
}
