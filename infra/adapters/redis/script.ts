import { createHash } from 'node:crypto';
import { messageOf } from '@tributary/core';
import type { RedisClient } from './client.ts';

/** A Lua script, sent whole only to a server that does not know it yet. All its keys are of one slot. */
export class Script {
  readonly #source: string;
  readonly #digest: string;

  constructor(source: string) {
    this.#source = source;
    this.#digest = createHash('sha1').update(source).digest('hex');
  }

  async run(client: RedisClient, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    const all = [...keys, ...args];
    try {
      return await client.evalsha(this.#digest, keys.length, all);
    } catch (error) {
      if (!messageOf(error).startsWith('NOSCRIPT')) throw error;
      return client.eval(this.#source, keys.length, all);
    }
  }
}
