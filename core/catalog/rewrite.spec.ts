import { hash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MAX_VALUE_BYTES } from '../log/event-log.ts';
import type { Fact } from './facts.ts';
import {
  AT,
  account,
  contract,
  destination,
  fact,
  foldAll,
  organizationMember,
  transformation,
  WORKSPACE,
  workspace,
  workspaceMember,
} from './fold/catalog.fixture.ts';
import { applyFact } from './fold/fold.ts';
import type { CatalogState } from './fold/state.ts';
import {
  type CatalogEntry,
  CatalogGap,
  digestOfRows,
  isRewriteRecord,
  type RewriteBegun,
  RewriteReader,
  type RewriteRecord,
  rewriteRecords,
} from './rewrite.ts';
import { type CatalogRow, rowsOf } from './rows.ts';

const BEGUN: RewriteBegun = {
  v: 1,
  type: 'catalog.rewrite_begun',
  rewrite: 'r1',
  by: 'operator:catalog',
  at: AT,
};

/** The records as a log returns them. */
function recordsOf(rows: readonly CatalogRow[], rewrite = 'r1'): readonly RewriteRecord[] {
  return [...rewriteRecords(rewrite, rows)].map((record) => JSON.parse(JSON.stringify(record)));
}

function read(records: readonly RewriteRecord[]): CatalogState | undefined {
  const reader = new RewriteReader(BEGUN);
  let state: CatalogState | undefined;
  for (const record of records) state ??= reader.add(record);
  return state;
}

const restored = (state: CatalogState) => read(recordsOf(rowsOf(state))) as CatalogState;

/** Few accounts and addresses that are created, changed and removed. */
const address = fc.constantFrom('a@example.com', 'b@example.com', 'c@example.com');
const person = fc.constantFrom('p1', 'p2');
const member = fc.constantFrom('m1', 'm2', 'm3');
const people: fc.Arbitrary<Fact> = fc.oneof(
  fc.tuple(person, fc.option(address)).map(([id, email]) => account(id, email)),
  fc
    .tuple(person, fc.option(address))
    .map(([id, email]) => fact('account.updated', id, { email, email_issued_at: AT })),
  fc.tuple(member, address).map(([id, email]) => organizationMember(id, email)),
  fc.tuple(member, address).map(([id, email]) => workspaceMember(`w${id}`, email)),
  member.map((id) => fact('organization_member.removed', id, {})),
  member.map((id) => fact('workspace_member.removed', `w${id}`, {})),
  member.map((id) => contract(id, id)),
  fc.tuple(member, fc.nat({ max: 2 })).map(
    ([id, version]): Fact => ({
      ...fact('contract.updated', id, { name: 'n' }),
      expected_version: version,
    }),
  ),
  member.map((id) => fact('contract.archived', id, {})),
  member.map((id) => destination(`d${id}`)),
  member.map((id) => fact('destination.deleted', `d${id}`, {})),
);
const history = fc.array(people, { maxLength: 40, size: 'max' });

describe('a rewrite', () => {
  it('gives the same state, on which later facts have the same effect', () => {
    fc.assert(
      fc.property(history, history, (before, later) => {
        const facts = [workspace(), ...before];
        const { state } = foldAll(facts);
        const again = restored(state);
        expect(rowsOf(again)).toEqual(rowsOf(state));
        for (const [n, each] of later.entries()) {
          const position = facts.length + n;
          expect(applyFact(again, each, position)).toEqual(applyFact(state, each, position));
        }
        expect(digestOfRows(rowsOf(again))).toBe(digestOfRows(rowsOf(state)));
      }),
    );
  });

  it('holds no address without a current member', () => {
    const { state } = foldAll([
      workspace(),
      account('p1', 'planted-1@example.com'),
      fact('account.updated', 'p1', { email: 'new@example.com', email_issued_at: AT }),
      workspaceMember('m1', 'planted-2@example.com'),
      fact('workspace_member.removed', 'm1', {}),
    ]);
    const text = JSON.stringify(recordsOf(rowsOf(state)));
    expect(text).toContain('new@example.com');
    expect(text).not.toContain('planted');
    expect(restored(state).workspaceMembers.wasRemoved(WORKSPACE, 'm1')).toBe(true);
  });

  it('is cut into records that a log takes, also amid a row, a letter of two characters, or what JSON escapes', () => {
    for (const letter of ['😀', '\u0000', '"', '漢', 'x'])
      for (const shift of ['', 'y']) {
        const { state } = foldAll([workspace(), transformation('t1')]);
        const source_code = shift + letter.repeat(600_000);
        applyFact(state, fact('transformation.updated', 't1', { source_code }), 2);
        const records = recordsOf(rowsOf(state));
        expect(records.length).toBeGreaterThan(3);
        for (const record of records)
          expect(Buffer.byteLength(JSON.stringify(record))).toBeLessThan(MAX_VALUE_BYTES);
        expect(read(records)?.transformation('t1')?.source_code).toBe(source_code);
      }
  });

  it('is read whatever stands between its records: others, and pieces that were written twice', () => {
    const { state } = foldAll([workspace(), contract('c1')]);
    const [piece, ended] = recordsOf(rowsOf(state)) as [RewriteRecord, RewriteRecord];
    const [foreign, foreignEnd] = recordsOf(rowsOf(foldAll([workspace('w9')]).state), 'r2') as [
      RewriteRecord,
      RewriteRecord,
    ];
    const between = { ...BEGUN, rewrite: 'r2' };
    const found = read([between, foreign, piece, piece, foreignEnd, foreign, ended]);
    expect(found && rowsOf(found)).toEqual(rowsOf(state));
  });

  it('that never ended is ignored', () => {
    const records = recordsOf(rowsOf(foldAll([workspace()]).state));
    expect(read(records.slice(0, -1))).toBeUndefined();
  });

  it('that lacks a piece, or has another, is refused', () => {
    const { state } = foldAll([workspace(), transformation('t1')]);
    const source_code = 'x'.repeat(600_000);
    applyFact(state, fact('transformation.updated', 't1', { source_code }), 2);
    const records = recordsOf(rowsOf(state));
    expect(() => read(records.toSpliced(1, 1))).toThrow(CatalogGap);
    expect(() => read(records.toSpliced(records.length - 2, 1))).toThrow(CatalogGap);
    const changed = JSON.parse(JSON.stringify(records).replace('xxxx', 'yyyy'));
    expect(() => read(changed)).toThrow('not those that were written');
  });

  it('in a form that is not known is not read over', () => {
    expect(isRewriteRecord(BEGUN)).toBe(true);
    expect(isRewriteRecord(workspace())).toBe(false);
    expect(() => isRewriteRecord({ ...BEGUN, v: 2 } as unknown as CatalogEntry)).toThrow('does not know');
  });

  it('of version 1 is read for ever', () => {
    const rows = [
      [
        'table',
        'accounts',
        ['a1'],
        { id: 'a1', issuer: 'i', subject: 's', email: 'a@example.com', version: 1 },
      ],
      ['table', 'accountsOfEmail', ['a@example.com', 'a1']],
      ['table', 'organizations', ['o1'], { id: 'o1', name: 'o1', org_id: 1, regions: ['eu'], version: 1 }],
      [
        'table',
        'organizationMembers.members',
        ['o1', 'm1'],
        { id: 'm1', organization_id: 'o1', account_id: 'a1', role: 'owner', version: 1 },
      ],
      ['table', 'organizationMembers.ofAccount', ['a1', 'o1'], 'm1'],
      ['table', 'organizationMembers.scopes', ['m1'], 'o1'],
      [
        'workspace',
        { id: 'w1', name: 'w1', organization_id: 'o1', region: 'eu', status: 'active', version: 1 },
      ],
      [
        'entity',
        'contract',
        {
          id: 'c1',
          workspace_id: 'w1',
          name: 'c1',
          event_type: 'track',
          event_name: 'order',
          status: 'active',
          version: 2,
        },
      ],
      ['deleted', 'w1', 'destination', 'd1'],
      ['era', 'w1', 'track:order', 3, AT, { id: 'c1', workspace_id: 'w1', name: 'before', version: 1 }],
      ['era', 'w1', 'track:order', 7, AT, 'c1'],
    ];
    const text = rows.map((row) => `${JSON.stringify(row)}\n`).join('');
    const sha256 = hash('sha256', text);
    const state = read([
      { v: 1, type: 'catalog.rewrite_rows', rewrite: 'r1', part: 0, text },
      { v: 1, type: 'catalog.rewrite_ended', rewrite: 'r1', parts: 1, sha256 },
    ]);
    expect(state?.accountOfEmail('a@example.com')).toBe('a1');
    expect(state?.workspaceRole('a1', 'w1')).toBe('admin');
    expect(state?.wasDeleted('destination', 'w1', 'd1')).toBe(true);
    expect(state?.contractAt('w1', 'track', 'order', 6)?.name).toBe('before');
    expect(state?.contractAt('w1', 'track', 'order', 7)?.name).toBe('c1');
  });
});
