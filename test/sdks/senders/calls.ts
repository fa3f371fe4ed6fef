import { setTimeout as sleep } from 'node:timers/promises';

/** The task of a sender: the address, the key, the name, and the number of calls of each type. */
export interface Task {
  readonly url: string;
  readonly writeKey: string;
  readonly name: string;
  readonly rounds: number;
}

/** The fields of one round's calls, the same from every SDK. */
export function callsOf({ name }: Task, round: number) {
  const common = {
    userId: `${name}-user`,
    anonymousId: `${name}-device`,
    context: { app: { name: 'Shop', version: '1.2' } },
    integrations: { All: true, Elsewhere: false },
    timestamp: new Date('2026-01-02T03:04:05.678Z'),
  };
  const said = { round, text: 'Grüße 漢字 🙂', nested: { list: [1, 'two', true], price: 12.5 } };
  return {
    track: { ...common, event: 'Order Completed', properties: said },
    identify: { ...common, traits: { ...said, plan: 'pro' } },
    page: {
      ...common,
      name: 'Home',
      category: 'Docs',
      properties: { ...said, url: 'https://shop.example/' },
    },
    group: { ...common, groupId: 'acme', traits: { ...said, employees: 17 } },
  };
}

/** A sender's arguments. */
export function task(): Task {
  const [url = '', writeKey = '', name = '', rounds = '0'] = process.argv.slice(2);
  return { url, writeKey, name, rounds: Number(rounds) };
}

/** The calls common to all SDKs. */
export interface Client {
  track(call: object): unknown;
  identify(call: object): unknown;
  page(call: object): unknown;
  group(call: object): unknown;
}

/** Makes the calls of each round, reports when half of them are in flight, and ends once the SDK is done. */
export async function sendAll(task: Task, client: Client, end: () => Promise<unknown>): Promise<void> {
  const { rounds } = task;
  for (let round = 0; round < rounds; round++) {
    if (round === Math.floor(rounds / 2)) process.stdout.write('half\n');
    const { track, identify, page, group } = callsOf(task, round);
    client.track(track);
    client.identify(identify);
    client.page(page);
    client.group(group);
    await sleep(20);
  }
  await end();
}
