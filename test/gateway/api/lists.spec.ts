import { describe, expect, it } from 'vitest';
import type { Client } from '../../helpers/client.ts';
import { suiteGateway } from '../suite-gateway.ts';

const test = await suiteGateway();

interface Listed {
  readonly id: string;
}

/** Follows `Link` to the end; `between` is called after each page. */
async function walk(client: Client, list: string, between: (page: number) => Promise<void>) {
  const pages: string[][] = [];
  for await (const page of client.pages(list)) {
    pages.push(page.map(({ id }) => id));
    await between(pages.length);
  }
  return pages;
}

const nothing = async () => {};
const source = (n: number) => ({ name: `s${n}`, type: 'web' });

describe('a list', () => {
  it('continues at its position while entities are created and deleted, and misses none that stays', async () => {
    const owner = await test.openWorkspace();
    const made: string[] = [];
    for (let n = 0; n < 13; n++) made.unshift((await owner.ok<Listed>('POST', './sources', source(n))).id);
    const pages = await walk(owner, './sources?limit=4', async (page) => {
      await owner.ok('POST', './sources', source(100 + page));
      if (page === 1) for (const at of [3, 5, 12]) await owner.ok('DELETE', `./sources/${made[at]}`);
    });
    const left = made.filter((_, at) => ![5, 12].includes(at));
    expect(pages.flat()).toEqual(left);
    expect(pages.map(({ length }) => length)).toEqual([4, 4, 3]);
  });

  it('of a status pages among its own: a contract that is archived meanwhile goes from one to the other', async () => {
    const owner = await test.openWorkspace('archive@example.com');
    const made: string[] = [];
    for (let n = 0; n < 9; n++) {
      const body = { name: `c${n}`, event_type: 'track', event_name: `E${n}`, schema_definition: {} };
      made.unshift((await owner.ok<Listed>('POST', './event-contracts', body)).id);
    }
    const archive = (at: number) => owner.ok('DELETE', `./event-contracts/${made[at]}`);
    for (const at of [1, 4, 8]) await archive(at);
    const of = (...places: number[]) => places.map((at) => made[at]);
    expect((await walk(owner, './event-contracts?status=archived&limit=2', nothing)).flat()).toEqual(
      of(1, 4, 8),
    );
    const active = await walk(owner, './event-contracts?limit=2', async (page) => {
      if (page === 1) await archive(5);
    });
    expect(active).toEqual([of(0, 2), of(3, 6), of(7)]);
    expect((await walk(owner, './event-contracts?status=archived&limit=3', nothing)).flat()).toEqual(
      of(1, 4, 5, 8),
    );
  });

  it('of workspaces is one, of organizations that are governed and of guests, with each once', async () => {
    const ann = await test.signIn('ann@example.com');
    const bob = await test.signIn('bob@example.com');
    await ann.ok('GET', '/workspaces');
    const made: string[] = [];
    const make = async (of: Client, body: object) => {
      const workspace = await of.ok<Listed & { organization_id: string }>('POST', '/workspaces', body);
      made.unshift(workspace.id);
      return workspace;
    };
    const invite = (path: string, role: string) =>
      bob
        .with({ workspaceId: path.split('/')[2] ?? '' })
        .ok<Listed>('POST', `${path}/members`, { email: 'ann@example.com', role });
    const guests = new Map<string, string>();
    const { organization_id: own } = await make(ann, { name: 'own' });
    const { organization_id: governed } = await make(bob, { name: 'governed' });
    const foreign = await make(bob, { name: 'foreign' });
    for (let n = 0; n < 3; n++) {
      await make(ann, { name: 'a', organization_id: own });
      await make(bob, { name: 'b', organization_id: governed });
      const { id } = await make(bob, { name: 'c', organization_id: foreign.organization_id });
      guests.set(id, (await invite(`/workspaces/${id}`, 'viewer')).id);
    }
    await invite(`/organizations/${governed}`, 'admin');
    // Also invited as a guest to a workspace that she governs.
    await invite(`/workspaces/${made[1]}`, 'editor');
    const hidden = made.length - 3; // Bob's first in the organization she is a guest of
    expect(made[hidden]).toBe(foreign.id);
    const seen = made.filter((_, at) => at !== hidden);
    const pages = await walk(ann, '/workspaces?limit=3', nothing);
    expect(pages.flat()).toEqual(seen);
    expect(pages.map(({ length }) => length)).toEqual([3, 3, 3, 2]);
    const [[newest, membership] = ['', '']] = [...guests].toReversed();
    const elsewhere = await walk(ann, '/workspaces?limit=5', async (page) => {
      if (page !== 1) return;
      const others = [...guests].filter(([id]) => id !== newest);
      for (const [id, member] of others)
        await bob.with({ workspaceId: id }).ok('DELETE', `/workspaces/${id}/members/${member}`);
    });
    expect(membership).not.toBe('');
    expect(elsewhere.flat()).toEqual(seen.filter((id, at) => at < 5 || !guests.has(id)));
    expect((await walk(ann, '/organizations?limit=1', nothing)).flat()).toEqual([governed, own]);
  });
});
