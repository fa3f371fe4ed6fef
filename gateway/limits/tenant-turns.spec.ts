import { organizationOf } from '@tributary/core';
import { expect, it } from 'vitest';
import { PRODUCER_TURNS, TENANT_TURNS } from './turns.ts';

function busyFor(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

it('contracts that a producer has checked waited for the console work of other organizations: they have turns of their own', async () => {
  const ended: string[] = [];
  const ofConsole = Array.from({ length: 40 }, (_, n) =>
    TENANT_TURNS.run(`organization${n}`, () => busyFor(2)).then(() => ended.push('console')),
  );
  await PRODUCER_TURNS.run('producer', () => ended.push('producer'));
  expect(ended.length).toBeLessThan(10);
  await Promise.all(ofConsole);
});

it('an organization had a turn for each of its workspaces: it has one', () => {
  const state = { workspace: (id: string) => ({ organization_id: 'acme', id }) as never };
  expect(['w1', 'w2'].map((id) => organizationOf(state, id))).toEqual(['acme', 'acme']);
  expect(organizationOf({ workspace: () => undefined }, 'unknown')).toBe('unknown');
});
