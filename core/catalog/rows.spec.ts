import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Fact } from './facts.ts';
import {
  account,
  apiKey,
  clientKey,
  contract,
  destination,
  fact,
  foldAll,
  ORGANIZATION,
  organizationMember,
  rule,
  source,
  transformation,
  WORKSPACE,
  workspace,
  workspaceMember,
  writeKey,
} from './fold/catalog.fixture.ts';
import { FOLD_VERSION } from './fold/fold.ts';
import { CatalogState } from './fold/state.ts';
import { type CatalogRow, RowsReader, rowsOf } from './rows.ts';

const HISTORY = [
  fact('account.created', 'a1', { id: 'a1', issuer: 'i', subject: 's', email: 'a@example.com' }),
  workspace(),
  apiKey('k1', 'h1'),
  writeKey('q1', 'h2'),
  contract('c1'),
  fact('contract.updated', 'c1', { name: 'changed' }),
  contract('c2', 'view'),
  fact('contract.archived', 'c2', {}),
  transformation('t1'),
  fact('transformation.updated', 't1', { source_code: 'const transform = (event) => event' }),
  destination('d1'),
  destination('d2'),
  rule('r1', 'd1', 't1'),
  fact('destination.deleted', 'd2', {}),
  fact('write_key.revoked', 'q1', {}),
  source('s1'),
  organizationMember('m1', 'm1@example.com'),
  organizationMember('m2', 'm2@example.com'),
  workspaceMember('m3', 'm1@example.com'),
  fact('organization_member.removed', 'm2', {}),
  account('a2', 'm1@example.com'),
  clientKey('ck1', 'h3'),
  fact('installation.created', 'i1', {}),
  fact('installation.created', 'i2', {}),
  { ...fact('installation.created', 'i1', {}), v: 2 } as Fact,
];

/** Digest of the rows of `HISTORY` by version of the fold. */
const DIGESTS: Readonly<Record<number, string>> = {
  2: '7ea8e503219def0df0caa766332faf3c81d343fe74a637361f812f449ffdaafd',
  3: '7db807a8ea6c3b44e3154db928943357e58891b3bdb5c0c65938b263dda9abb8',
  4: '1c1cecd4f1a781af429f75f6ba11427d5f0e3eb6aa2e403db11fc824bb8a5094',
  5: '81679ba26bb99c0bde8b3c36595c36c73560b8a40d0b6897b5d9584dac183c1c',
};

function restored(state: CatalogState): CatalogState {
  const reader = new RowsReader();
  for (const row of JSON.parse(JSON.stringify(rowsOf(state))) as readonly CatalogRow[]) reader.add(row);
  return reader.state;
}

describe('the rows of a state', () => {
  it('give back all that can be looked up', () => {
    const state = restored(foldAll(HISTORY).state);
    expect([state.installation, state.isUpgraded]).toEqual(['i1', true]);
    expect(state.account('a1')?.email).toBe('a@example.com');
    expect([...state.workspaceListing('a1').newestFirst()].map(({ id }) => id)).toEqual([WORKSPACE]);
    expect(state.keyByHash('h1')?.key.id).toBe('k1');
    expect(state.keyByHash('h2')?.key.status).toBe('revoked');
    expect(state.keyByHash('h3')?.kind).toBe('client_key');
    expect(state.entity('source', WORKSPACE, 's1')?.id).toBe('s1');
    expect(state.workspaceMembers.ofAccount('a2', WORKSPACE)?.role).toBe('viewer');
    expect(state.organizationRole('a2', ORGANIZATION)).toBe('member');
    expect(state.organizationByOrgId(1)?.id).toBe(ORGANIZATION);
    expect(state.organizationMembers.wasRemoved(ORGANIZATION, 'm2')).toBe(true);
    expect(state.wasDeleted('destination', WORKSPACE, 'd2')).toBe(true);
    expect(state.workspaceOf('d2')).toBe(WORKSPACE);
    expect(state.enabledRules(WORKSPACE).map(({ id }) => id)).toEqual(['r1']);
    expect(state.contractAt(WORKSPACE, 'track', 'order', 5)?.name).toBe('c1');
    expect(state.contractAt(WORKSPACE, 'track', 'order', 6)?.name).toBe('changed');
    expect(state.contractAt(WORKSPACE, 'track', 'view', 7)?.id).toBe('c2');
    expect(state.contractAt(WORKSPACE, 'track', 'view', 8)).toBeUndefined();
  });

  it('share the contract that judges now with its table, so that it costs memory once', () => {
    const state = restored(foldAll(HISTORY).state);
    expect(state.contractAt(WORKSPACE, 'track', 'order', 9)).toBe(state.entity('contract', WORKSPACE, 'c1'));
  });

  it('hold every field that a state and its parts have', () => {
    const fieldsOf = (file: string) => {
      const source = readFileSync(new URL(file, import.meta.url), 'utf8');
      return [...source.matchAll(/^ {2}readonly #?(\w+) = new/gm)].map(([, name]) => name ?? '');
    };
    const names = Object.keys(new CatalogState().tables());
    // These are rebuilt from the rows of organizations, workspaces and their entities.
    const derived = [
      ...'organizationNumbers organizationsMade workspaces workspacesMade'.split(' '),
      ...'workspacesOfOrganization characters indexes keys workspaceOf'.split(' '),
    ];
    const held = new Set(names.map((name) => name.split('.')[0] ?? ''));
    expect([...held, ...derived].sort()).toEqual([...fieldsOf('./fold/state.ts')].sort());
    const parts = {
      './fold/members.ts': ['organizationMembers', 'workspaceMembers'],
      './fold/client-keys.ts': ['clientKeys'],
      './fold/transformation-versions.ts': ['transformationVersions'],
    };
    for (const [file, fields] of Object.entries(parts))
      for (const field of fields) {
        const inner = names.filter((name) => name.startsWith(`${field}.`)).map((name) => name.split('.')[1]);
        expect(inner.length).toBeGreaterThan(0);
        // Orders are rebuilt when a list is requested.
        const own = fieldsOf(file).filter((name) => !/orders$/i.test(name));
        expect(inner.sort()).toEqual(own.sort());
      }
  });

  it('change only with the version of the fold', () => {
    const rows = JSON.stringify(rowsOf(foldAll(HISTORY).state));
    expect(createHash('sha256').update(rows).digest('hex')).toBe(DIGESTS[FOLD_VERSION]);
  });
});

describe('contracts that judge nothing any more', () => {
  const at = (day: number) => `2026-01-${String(day).padStart(2, '0')}T00:00:00.000Z`;
  const on = (day: number, ...[type, entity, data]: Parameters<typeof fact>) => ({
    ...fact(type, entity, data),
    at: at(day),
  });
  const history = [
    workspace(),
    { ...contract('c1'), at: at(1) },
    on(2, 'contract.updated', 'c1', { name: 'second' }),
    on(10, 'contract.updated', 'c1', { name: 'third' }),
    on(11, 'contract.archived', 'c1', {}),
  ] as Parameters<typeof foldAll>[0];
  const names = (state: CatalogState) =>
    [2, 3, 4, 5].map((position) => state.contractAt(WORKSPACE, 'track', 'order', position)?.name);

  it('are forgotten once they were followed by another for long enough', () => {
    const { state } = foldAll(history);
    expect(names(state)).toEqual(['c1', 'second', 'third', undefined]);
    state.forgetEras(at(5));
    // Events older than all kept contracts are evaluated by the oldest one.
    expect(names(state)).toEqual(['second', 'second', 'third', undefined]);
    state.forgetEras(at(31));
    expect(names(state)).toEqual([undefined, undefined, undefined, undefined]);
  });

  it('stay while an event of their time may still be judged', () => {
    const { state } = foldAll(history);
    state.forgetEras(at(2));
    expect(names(state)).toEqual(['c1', 'second', 'third', undefined]);
  });
});
