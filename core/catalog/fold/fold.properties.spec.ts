import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { WorkspaceEntityKind } from '../catalog.ts';
import type { Fact } from '../facts.ts';
import { type CatalogRow, RowsReader, rowsOf } from '../rows.ts';
import {
  AT,
  alert,
  alertTurned,
  apiKey,
  contract,
  destination,
  fact,
  foldAll,
  OWNER,
  rule,
  source,
  transformation,
  turned,
  warehouseTable,
  workspace,
  writeKey,
} from './catalog.fixture.ts';
import { applyFact } from './fold.ts';
import type { CatalogState } from './state.ts';

/** Few ids, so that facts meet: the same id, pair, hash, version and reference come up again and again. */
const WORKSPACES = ['w1', 'w2'];
const KINDS = [
  'api_key',
  'write_key',
  'source',
  'contract',
  'transformation',
  'destination',
  'rule',
  'alert',
  'warehouse_table',
] as const;
const NAMES = ['', 'order', 'view'];
const HASHES = ['h1', 'h2', 'h3'];
const POSITIONS_PAST_END = 3;

const inWorkspace = fc.constantFrom(...WORKSPACES);
const id = (letter: string) => fc.constantFrom(`${letter}1`, `${letter}2`, `${letter}3`);
const name = fc.constantFrom(...NAMES);
const hash = fc.constantFrom(...HASHES);

const created: readonly fc.Arbitrary<Fact>[] = [
  fc.tuple(id('k'), hash, inWorkspace).map((args) => apiKey(...args)),
  fc.tuple(id('q'), hash, inWorkspace, fc.option(id('s'))).map((args) => writeKey(...args)),
  fc.tuple(id('s'), inWorkspace).map((args) => source(...args)),
  fc.tuple(id('c'), name, inWorkspace).map((args) => contract(...args)),
  fc
    .tuple(id('t'), fc.constantFrom('draft' as const, 'active' as const), inWorkspace)
    .map((args) => transformation(...args)),
  fc.tuple(id('d'), inWorkspace).map((args) => destination(...args)),
  fc.tuple(id('a'), inWorkspace).map((args) => alert(...args)),
  fc.tuple(id('r'), id('d'), fc.option(id('t')), fc.boolean(), inWorkspace).map((args) => rule(...args)),
  fc.tuple(id('w'), id('d'), inWorkspace).map((args) => warehouseTable(...args)),
];

const changed: readonly fc.Arbitrary<Fact>[] = [
  id('k').map((key) => fact('api_key.revoked', key, {})),
  id('q').map((key) => fact('write_key.revoked', key, {})),
  id('s').map((entity) => fact('source.updated', entity, { name: 'renamed' })),
  id('s').map((entity) => fact('source.deleted', entity, {})),
  fc.tuple(id('c'), name).map(([entity, event_name]) => fact('contract.updated', entity, { event_name })),
  id('c').map((entity) => fact('contract.updated', entity, { status: 'archived' })),
  id('c').map((entity) => fact('contract.archived', entity, {})),
  fc
    .tuple(id('t'), fc.constantFrom('draft' as const, 'active' as const, 'error' as const))
    .map(([entity, status]) => fact('transformation.updated', entity, { status })),
  id('t').map((entity) => fact('transformation.deleted', entity, {})),
  id('d').map((entity) => fact('destination.updated', entity, { enabled: false })),
  id('d').map((entity) => fact('destination.deleted', entity, {})),
  fc.tuple(id('d'), fc.nat({ max: 2 }), fc.uuid()).map((args) => turned(...args)),
  fc
    .tuple(id('r'), id('d'), fc.option(id('t')), fc.boolean())
    .map(([entity, destination_id, transformation_id, enabled]) =>
      fact('rule.updated', entity, { destination_id, transformation_id, enabled }),
    ),
  id('r').map((entity) => fact('rule.deleted', entity, {})),
  id('a').map((entity) => fact('alert.updated', entity, { enabled: false })),
  id('a').map((entity) => fact('alert.deleted', entity, {})),
  fc.tuple(id('w'), id('c')).map(([entity, column]) =>
    fact('warehouse_table.updated', entity, {
      columns: { [column]: { type: 'text', origin: 'value', since: AT } },
    }),
  ),
  fc.tuple(id('a'), fc.nat({ max: 2 }), fc.uuid()).map((args) => alertTurned(...args)),
];

const versioned = fc
  .tuple(fc.oneof(...changed), fc.option(fc.nat({ max: 3 }), { nil: undefined, freq: 3 }))
  .map(([each, version]) => (version === undefined ? each : { ...each, expected_version: version }));

const history = fc
  .array(fc.oneof(fc.oneof(...created), versioned), { maxLength: 60, size: 'max' })
  .map((facts): readonly Fact[] => [workspace('w1', 'o1'), workspace('w2', 'o2'), ...facts]);

/** One workspace with two of each part of a rule: references meet at almost every fact. */
const rulesHistory = fc
  .array(
    fc.oneof(
      fc.constantFrom('d1', 'd2').map((entity) => destination(entity)),
      fc.constantFrom('d1', 'd2').map((entity) => fact('destination.deleted', entity, {})),
      fc
        .tuple(fc.constantFrom('t1', 't2'), fc.constantFrom('draft' as const, 'active' as const))
        .map((args) => transformation(...args)),
      fc
        .tuple(
          fc.constantFrom('t1', 't2'),
          fc.constantFrom('draft' as const, 'active' as const, 'error' as const),
        )
        .map(([entity, status]) => fact('transformation.updated', entity, { status })),
      fc.constantFrom('t1', 't2').map((entity) => fact('transformation.deleted', entity, {})),
      fc
        .tuple(
          fc.constantFrom('r1', 'r2'),
          fc.constantFrom('d1', 'd2'),
          fc.constantFrom('t1', 't2', null),
          fc.boolean(),
        )
        .map((args) => rule(...args)),
      fc
        .tuple(fc.constantFrom('r1', 'r2'), fc.constantFrom({ enabled: true }, { transformation_id: 't1' }))
        .map(([entity, change]) => fact('rule.updated', entity, change)),
    ),
    { maxLength: 40, size: 'max' },
  )
  .map((facts): readonly Fact[] => [
    workspace('w1', 'o1'),
    destination('d1'),
    transformation('t1'),
    ...facts,
  ]);

/** The parts of the state that are derived from its entities: lists in creation order, counts and sums. */
function derived(state: CatalogState): unknown {
  return {
    lists: WORKSPACES.map((workspaceId) =>
      KINDS.map((kind) =>
        [undefined, 'active', 'archived', 'revoked', 'enabled', 'disabled', 'd1'].map((group) => {
          const listing = state.listing(kind, workspaceId, group);
          return [listing.size, [...listing.newestFirst()]];
        }),
      ),
    ),
    made: state.createdCounts(OWNER),
    organizations: ['o1', 'o2'].map((id) => [
      state.charactersIn(id),
      [...state.workspacesIn(id).newestFirst()],
      [...state.organizationMembers.listing(id, 'owner').newestFirst()],
      [...state.clientKeys.listing(id, 'active').newestFirst()],
    ]),
    mine: [...state.workspaceListing(OWNER, 'active').newestFirst()],
  };
}

/** Everything that can be read from the state, as plain data. */
function everything(state: CatalogState, positions: number): unknown {
  return WORKSPACES.map((workspaceId) => ({
    entities: KINDS.map((kind) => state.entities(kind, workspaceId)),
    rules: state.enabledRules(workspaceId),
    keys: HASHES.map((each) => state.keyByHash(each)),
    judged: Array.from({ length: positions }, (_, position) => judges(state, workspaceId, position)),
  }));
}

function judges(state: CatalogState, workspaceId: string, position: number): unknown {
  return NAMES.map((each) => state.contractAt(workspaceId, 'track', each, position));
}

function versions(state: CatalogState): ReadonlyMap<string, number> {
  const all = WORKSPACES.flatMap((workspaceId) =>
    KINDS.flatMap((kind: WorkspaceEntityKind) => state.entities(kind, workspaceId)),
  );
  return new Map(all.map((entity) => [entity.id, entity.version]));
}

/** Folds and calls `check` after every fact. */
function each(
  facts: readonly Fact[],
  check: (now: {
    state: CatalogState;
    fact: Fact;
    position: number;
    applied: boolean;
    before: Snapshot;
  }) => void,
): void {
  const { state } = foldAll([]);
  for (const [position, current] of facts.entries()) {
    const before = { versions: versions(state), everything: everything(state, position) };
    const { applied } = applyFact(state, current, position);
    check({ state, fact: current, position, applied, before });
  }
}

interface Snapshot {
  readonly versions: ReadonlyMap<string, number>;
  readonly everything: unknown;
}

describe('the fold', () => {
  it('has the same verdicts on every replay', () => {
    fc.assert(
      fc.property(history, (facts) => {
        const [one, other] = [foldAll(facts), foldAll(JSON.parse(JSON.stringify(facts)) as Fact[])];
        expect(other.verdicts).toEqual(one.verdicts);
        const positions = facts.length + POSITIONS_PAST_END;
        expect(everything(other.state, positions)).toEqual(everything(one.state, positions));
      }),
    );
  });

  it('changes nothing by a refused fact', () => {
    fc.assert(
      fc.property(history, (facts) => {
        each(facts, ({ state, position, applied, before }) => {
          if (!applied) expect(everything(state, position)).toEqual(before.everything);
        });
      }),
      { numRuns: 50 },
    );
  });

  it('never makes a revoked key active again', () => {
    fc.assert(
      fc.property(history, (facts) => {
        const revoked = new Set<string>();
        each(facts, ({ state, fact: { type, entity }, applied }) => {
          if (applied && type.endsWith('_key.revoked')) revoked.add(entity);
          for (const each of HASHES) {
            const key = state.keyByHash(each)?.key;
            if (key !== undefined && revoked.has(key.id)) expect(key.status).toBe('revoked');
          }
        });
      }),
    );
  });

  it('has at most one active contract for a type and name, which is the one that applies', () => {
    fc.assert(
      fc.property(history, (facts) => {
        each(facts, ({ state, position }) => {
          for (const workspaceId of WORKSPACES) {
            const active = state
              .entities('contract', workspaceId)
              .filter(({ status }) => status === 'active');
            for (const eventName of NAMES) {
              const ofPair = active.filter(({ event_name }) => event_name === eventName);
              expect(ofPair.length).toBeLessThanOrEqual(1);
              const everyName = active.find(({ event_name }) => event_name === '');
              const judge = state.contractAt(workspaceId, 'track', eventName, position + 1);
              expect(judge).toBe(ofPair[0] ?? everyName);
            }
          }
        });
      }),
    );
  });

  it('has the same contract for a position with any number of later facts', () => {
    fc.assert(
      fc.property(history, (facts) => {
        const known: unknown[] = [];
        each(facts, ({ state, position }) => {
          known.push(WORKSPACES.map((workspaceId) => judges(state, workspaceId, position + 1)));
        });
        const { state } = foldAll(facts);
        for (const [position, judged] of known.entries())
          expect(WORKSPACES.map((workspaceId) => judges(state, workspaceId, position + 1))).toEqual(judged);
      }),
    );
  });

  it('never has an enabled rule that names a missing destination or a missing or draft transformation', () => {
    fc.assert(
      fc.property(rulesHistory, (facts) => {
        each(facts, ({ state }) => {
          for (const workspaceId of WORKSPACES) {
            for (const { destination_id, transformation_id } of state.enabledRules(workspaceId)) {
              expect(state.entity('destination', workspaceId, destination_id)).toBeDefined();
              if (transformation_id === null) continue;
              const named = state.entity('transformation', workspaceId, transformation_id);
              expect(['active', 'error']).toContain(named?.status);
            }
          }
        });
      }),
    );
  });

  it('continues from stored rows as from the facts', () => {
    fc.assert(
      fc.property(history, history, (facts, later) => {
        const { state } = foldAll(facts);
        const rows = JSON.parse(JSON.stringify(rowsOf(state))) as readonly CatalogRow[];
        const reader = new RowsReader();
        for (const row of rows) reader.add(row);
        expect(JSON.stringify(rowsOf(reader.state))).toBe(JSON.stringify(rowsOf(state)));
        expect(derived(reader.state)).toEqual(derived(state));
        for (const [n, fact] of later.entries()) {
          const position = facts.length + n;
          expect(applyFact(reader.state, fact, position)).toEqual(applyFact(state, fact, position));
        }
        expect(versions(reader.state)).toEqual(versions(state));
        expect(derived(reader.state)).toEqual(derived(state));
        for (let position = 0; position < facts.length + later.length + POSITIONS_PAST_END; position++)
          for (const workspaceId of WORKSPACES)
            expect(judges(reader.state, workspaceId, position)).toEqual(judges(state, workspaceId, position));
      }),
    );
  });
});
