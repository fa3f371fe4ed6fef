import type { LookupAddress } from 'node:dns';
import { describe, expect, it } from 'vitest';
import { createNameLookups } from './guard.ts';

const FOUND: readonly LookupAddress[] = [{ address: '192.0.2.1', family: 4 }];

/** A system with the name-lookup threads of libuv, each held forever by a name without an answer. */
function systemWith({ threads }: { readonly threads: number }) {
  const asked: string[] = [];
  const waiting: (() => void)[] = [];
  let free = threads;
  return {
    asked,
    async look(hostname: string) {
      if (free === 0) await new Promise<void>((resolve) => waiting.push(resolve));
      free -= 1;
      asked.push(hostname);
      if (hostname.startsWith('silent')) await new Promise<never>(() => {});
      free += 1;
      waiting.shift()?.();
      return FOUND;
    },
  };
}

const isInHosts = async (hostname: string) => hostname === 'in-hosts.example';

/** Name servers that are silent for some names and answer "not found" for others. */
function nameServers() {
  const asked: string[] = [];
  return {
    asked,
    async ask(hostname: string) {
      asked.push(hostname);
      if (hostname.startsWith('silent')) return undefined;
      return hostname.startsWith('inside') ? [] : FOUND;
    },
  };
}
const { ask } = nameServers();

describe('name look-ups', () => {
  it('are not delayed by servers that do not answer for other names', async () => {
    const system = systemWith({ threads: 2 });
    const resolve = createNameLookups({ ask, isInHosts, system: system.look });
    for (let n = 0; n < 20; n++) resolve(`silent-${n}.example`).catch(() => {});
    expect(await resolve('good.example')).toEqual(FOUND);
    expect(await resolve('localhost')).toEqual(FOUND);
    expect(await resolve('in-hosts.example')).toEqual(FOUND);
    expect(system.asked.filter((name) => name.startsWith('silent'))).toEqual(['silent-0.example']);
  });

  it('share one query for one name', async () => {
    const system = systemWith({ threads: 2 });
    const servers = nameServers();
    const resolve = createNameLookups({ ask: servers.ask, isInHosts, system: system.look });
    for (const name of ['good.example', 'inside', 'in-hosts.example'])
      await Promise.all(Array.from({ length: 16 }, () => resolve(name)));
    expect(servers.asked).toEqual(['good.example', 'inside']);
    expect(system.asked).toEqual(['inside', 'in-hosts.example']);
    await resolve('good.example');
    expect(servers.asked).toEqual(['good.example', 'inside', 'good.example']);
  });

  it('are rejected with EAI_AGAIN behind too many others', async () => {
    const resolve = createNameLookups({ ask, isInHosts, system: systemWith({ threads: 2 }).look });
    for (let n = 0; n < 32; n++) resolve(`silent-${n}.example`).catch(() => {});
    await expect(resolve('silent-32.example')).rejects.toMatchObject({ code: 'EAI_AGAIN' });
  });

  it('continue with the next in the queue after a failure', async () => {
    const failing = async (hostname: string) => {
      if (hostname === 'silent-0.example') throw Object.assign(new Error('no'), { code: 'ENOTFOUND' });
      return FOUND;
    };
    const resolve = createNameLookups({ ask, isInHosts, system: failing });
    const [first, second] = ['silent-0.example', 'silent-1.example'].map((name) => resolve(name));
    await expect(first).rejects.toMatchObject({ code: 'ENOTFOUND' });
    expect(await second).toEqual(FOUND);
  });

  it('use the system resolver only for names that no name server answers', async () => {
    const system = systemWith({ threads: 2 });
    const resolve = createNameLookups({ ask, isInHosts, system: system.look });
    await Promise.all(Array.from({ length: 20 }, (_, n) => resolve(`two-faced-${n}.example`)));
    expect(system.asked).toEqual([]);
  });

  it('find names known only to the system', async () => {
    const addresses = (await createNameLookups()('localhost')).map(({ address }) => address);
    expect(addresses.some((address) => address === '127.0.0.1' || address === '::1')).toBe(true);
  });
});
