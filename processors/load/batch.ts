import {
  batchId,
  type CanonicalEvent,
  type Catalog,
  type Clock,
  type CommitResult,
  closedTo,
  contractTypes,
  type Destination,
  DISCARDS_TABLE,
  type DiscardSample,
  type Drift,
  deliveryId,
  discardedEvents,
  EventLoopYielder,
  type Fact,
  FilterBudget,
  formatPosition,
  type HeldColumn,
  InvalidInput,
  iso,
  isUndecided,
  type LedgerRow,
  LoadDraft,
  type LoadPlan,
  type LoadRecord,
  type LogEntry,
  type LogRange,
  mayHoldExactNumbers,
  mismatchOf,
  organizationOf,
  type PlanningSteps,
  type PlanOptions,
  type ProfileChangeValue,
  type ProfileStore,
  parseExact,
  planSteps,
  type Rule,
  recordOf,
  type SchemaLedger,
  type ShownChange,
  subjectOfRules,
  type TableRows,
  type TableSchema,
  TOPIC,
  transformationInput,
  Unavailable,
  type Warehouse,
  type WarehouseBatch,
  warehouseTableId,
  withDoubles,
} from '@tributary/core';
import { awaitCatalog, isAhead } from '../catalog-position.ts';
import { eventOf, verdictIn } from '../event-record.ts';
import { takesEvent, takesHeaders } from '../replay/selection.ts';
import { DELETED, refusalOf, shareOf, type Transformer } from '../route/transformer.ts';
import type { StageParts } from '../stages.ts';
import { type Lane, rulesOf } from './lanes.ts';

export interface BatchTools extends Pick<StageParts, 'catalog' | 'clock' | 'elapsed'> {
  readonly warehouse: Warehouse;
  readonly destination: Destination;
  readonly lane: Lane;
  readonly profiles: Pick<ProfileStore, 'search'>;
  readonly transformer: Pick<Transformer, 'run' | 'release'>;
  readonly catalogCharacters: number;
  readonly signal: AbortSignal;
  /** What records of loads said of tables that a person changed. */
  readonly told: Set<string>;
}

/** The records of a batch, in their order within each partition. */
interface BatchRecords {
  readonly seq: number;
  readonly ranges: readonly LogRange[];
  readonly entries: readonly LogEntry[];
}

/** A batch whose tables are ready for it. */
export interface MadeBatch {
  readonly batch: Omit<WarehouseBatch, 'attempt'>;
  /** Events that were selected. */
  readonly events: number;
  /** What a record of the load says of its content. */
  recordOf(
    result: CommitResult & { readonly done: true },
  ): Pick<LoadRecord, 'rows' | 'discards' | 'samples' | 'discarded' | 'changes'>;
  /** What a person should know about the tables. */
  readonly note: string | undefined;
}

/** Tables of event names at most, where the settings name no other number. */
const EVENT_TABLES = 500;
/** How often a plan is made anew as another loader changed the ledger of the schema. */
const PLANS = 5;
/** Entries whose transformations run at a time. */
const AT_ONCE = 64;
/** Discards and changes that a record shows. */
const SAMPLES = 20;
const CHANGES = 100;

/** Makes the rows of a batch, and changes the tables so that they hold all of them. */
export async function makeBatch(tools: BatchTools, records: BatchRecords): Promise<MadeBatch> {
  const { destination, lane, clock } = tools;
  const events = await selectAll(tools, records.entries);
  const changes = await changesIn(tools, records.entries);
  const loadedAt = iso(clock());
  const plan = await prepared(tools, events, changes, loadedAt);
  const { seq, ranges } = records;
  const batch = batchId(destination.id, lane.id, seq, ranges);
  const ledger: LedgerRow = { lane: lane.id, seq, batch, ranges, rows: plan.rows, loadedAt };
  const { inserts, profiles, discardsOf } = plan;
  return {
    batch: { ledger, inserts, profiles, discardsOf },
    events: events.length,
    recordOf: (result) => recordOfPlan(plan, result),
    note: driftNote(plan.drifts, tools.told),
  };
}

async function selectAll(tools: BatchTools, entries: readonly LogEntry[]): Promise<readonly SelectedEvent[]> {
  const { elapsed, signal } = tools;
  const accepted = entries.filter(({ position }) => position.topic === TOPIC.accepted);
  const all: SelectedEvent[] = [];
  const thread = new EventLoopYielder(elapsed);
  for (let at = 0; at < accepted.length; at += AT_ONCE) {
    signal.throwIfAborted();
    const some = accepted.slice(at, at + AT_ONCE);
    const made = await Promise.all(some.map((entry) => selected(tools, entry)));
    for (const each of made) all.push(...each);
    if (thread.isYieldDue) await thread.yield();
  }
  return all;
}

/** A record that is no event becomes a discard: it must not keep the batch from being loaded. */
async function selected(tools: BatchTools, entry: LogEntry): Promise<readonly SelectedEvent[]> {
  const { catalog, destination, lane } = tools;
  try {
    if (isAhead(entry, catalog)) await awaitCatalog(catalog, [entry]);
    return await selectEvents(tools, destination, lane, entry);
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error;
    const event = { record: entry.value } as unknown as CanonicalEvent;
    return [{ event, position: formatPosition(entry.position), failure: `no event: ${error.message}` }];
  }
}

interface LoadedChange {
  readonly change: ProfileChangeValue;
  readonly position: string;
}

/** Changes of profiles. One that is too large for the log brings the profile as it is now. */
async function changesIn(
  { profiles }: BatchTools,
  entries: readonly LogEntry[],
): Promise<readonly LoadedChange[]> {
  const changes: LoadedChange[] = [];
  for (const { position, value } of entries) {
    if (position.topic !== TOPIC.profileChanges) continue;
    const change = parseExact<ProfileChangeValue>(value);
    const { ucid, orgId: org, region, kind } = change;
    const at = formatPosition(position);
    if (change.record !== undefined || kind === 'deleted') {
      changes.push({ change, position: at });
      continue;
    }
    const found = await profiles.search({ org, regions: [region], identities: [], ucids: [ucid] });
    const profile = found.find((one) => one.ucid === ucid);
    // Of one that was merged or deleted since, a later change says so.
    const { version, record } =
      profile === undefined ? change : { version: profile.version, record: recordOf(profile) };
    changes.push({ change: { ...change, version, ...(record && { record }) }, position: at });
  }
  return changes;
}

/**
 * Plans the tables and rows, changes the tables, and then the ledger of the schema in the catalog. A crash in between leaves
 * columns that the next plan takes as they are. Where another loader was faster, the plan is made anew by its ledger.
 */
async function prepared(
  tools: BatchTools,
  events: readonly SelectedEvent[],
  changes: readonly LoadedChange[],
  loadedAt: string,
): Promise<LoadPlan> {
  const { warehouse, elapsed, signal } = tools;
  for (let n = 0; n < PLANS; n++) {
    const schema = ledgerOf(tools);
    const draft = new LoadDraft({ limits: warehouse.limits, schema, maxEventTables: maxEventTables(tools) });
    const thread = new EventLoopYielder(elapsed);
    for (const { event, position, id, failure } of events) {
      if (failure !== undefined) draft.dropEvent(event, position, failure);
      else draft.addEvent(event, position, id);
      if (thread.isYieldDue) await thread.yield();
    }
    for (const { change, position } of changes) {
      draft.addChange(change, position);
      if (thread.isYieldDue) await thread.yield();
    }
    const described = await warehouse.describe(draft.tableNames, signal);
    const contracts = contractTypes(contractsOf(tools), warehouse.limits.nameLength);
    const plan = await altered(tools, draft, {
      limits: warehouse.limits,
      schema,
      contracts,
      described,
      loadedAt,
    });
    if (await isRecorded(tools, schema, plan.schema)) return plan;
  }
  throw new Unavailable('the ledger of the schema is changed by another loader all the time');
}

/** Changes the tables as planned. What the warehouse does not let change is planned again as it is. */
async function altered(
  { warehouse, elapsed, signal }: BatchTools,
  draft: LoadDraft,
  options: Omit<PlanOptions, 'held'>,
): Promise<LoadPlan> {
  const held: HeldColumn[] = [];
  for (;;) {
    const plan = await planned(planSteps(draft, { ...options, held }), elapsed, signal);
    const more = plan.changes.length === 0 ? [] : await warehouse.alter(plan.changes, signal);
    if (more.length === 0) return plan;
    held.push(...more);
  }
}

/** Plans in slices, as the stages of the process use the same thread. */
async function planned(steps: PlanningSteps, elapsed: Clock, signal: AbortSignal): Promise<LoadPlan> {
  const thread = new EventLoopYielder(elapsed);
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
    signal.throwIfAborted();
    if (thread.isYieldDue) await thread.yield();
  }
}

function contractsOf({ catalog, destination }: BatchTools) {
  return [...catalog.state.listing('contract', destination.workspace_id, 'active').newestFirst()];
}

/** Of an organization that uses up its quota of the catalog, no tables are added. */
function maxEventTables({ catalog, destination, catalogCharacters }: BatchTools): number {
  const organization = organizationOf(catalog.state, destination.workspace_id);
  const { max_event_tables: most } = destination.settings;
  if (catalog.state.charactersIn(organization) >= catalogCharacters) return 0;
  return typeof most === 'number' ? most : EVENT_TABLES;
}

function ledgerOf({ catalog, destination }: BatchTools): SchemaLedger {
  const tables = catalog.state.listing('warehouse_table', destination.workspace_id, destination.id);
  return new Map(
    Array.from(tables.newestFirst(), ({ name, columns }) => [name, { table: name, columns }] as const),
  );
}

/** Proposes what the plan changes of the ledger; false where the catalog has another ledger by now. */
async function isRecorded(
  { catalog, destination, clock }: BatchTools,
  before: SchemaLedger,
  after: readonly TableSchema[],
): Promise<boolean> {
  for (const { table, columns } of after) {
    const known = before.get(table)?.columns ?? {};
    const changed = Object.fromEntries(
      Object.entries(columns).filter(([name, { type }]) => known[name]?.type !== type),
    );
    if (Object.keys(changed).length === 0) continue;
    const id = warehouseTableId(destination.id, table);
    const { workspace_id, id: destination_id } = destination;
    const stored = catalog.state.entity('warehouse_table', workspace_id, id);
    const origin = {
      v: 1,
      entity: id,
      expected_version: stored?.version ?? 0,
      by: 'stage:load',
      from: { address: '', request_id: '' },
      at: iso(clock()),
    } as const;
    const fact: Fact =
      stored === undefined
        ? {
            ...origin,
            type: 'warehouse_table.created',
            data: { id, workspace_id, destination_id, name: table, columns: changed },
          }
        : { ...origin, type: 'warehouse_table.updated', data: { columns: changed } };
    const verdict = await catalog.propose(fact);
    if (!verdict.applied) return false;
  }
  return true;
}

function recordOfPlan(plan: LoadPlan, result: CommitResult & { readonly done: true }) {
  const refused = plan.discardsOf(result.refused);
  const discards: Record<string, number> = { ...plan.discards };
  for (const { table } of result.refused) discards[table] = (discards[table] ?? 0) + 1;
  const own = plan.inserts.find(({ table }) => table === DISCARDS_TABLE);
  const tables = own === undefined ? [refused] : [own, refused];
  const { [DISCARDS_TABLE]: _, ...rows } = result.inserted;
  return {
    rows,
    discards,
    samples: samplesOf(discardsIn(tables)),
    discarded: discardedEvents(discardsIn(tables)),
    changes: plan.changes.flatMap(shown).slice(0, CHANGES),
  };
}

function samplesOf(discards: Iterable<DiscardSample>): readonly DiscardSample[] {
  const samples: DiscardSample[] = [];
  for (const discard of discards) if (samples.push(discard) === SAMPLES) break;
  return samples;
}

function* discardsIn(tables: readonly TableRows[]): Generator<DiscardSample, void> {
  for (const { columns, rows } of tables) {
    const names = [...columns.keys()];
    const [table, column, message, position, reason] = [
      'table_name',
      'column_name',
      'message_id',
      'position',
      'reason',
    ].map((name) => names.indexOf(name));
    for (const row of rows) {
      const text = (at = -1) => String(row[at] ?? '');
      yield {
        table: text(table),
        column: text(column),
        message_id: text(message),
        position: text(position),
        reason: text(reason),
      };
    }
  }
}

function shown({ table, add, widen }: LoadPlan['changes'][number]): readonly ShownChange[] {
  return [
    ...Array.from(add, ([column, to]) => ({ table, column, from: null, to })),
    ...Array.from(widen, ([column, { from, to }]) => ({ table, column, from, to })),
  ];
}

/** Each is told once, as long as the loader runs. */
function driftNote(drifts: readonly Drift[], told: Set<string>): string | undefined {
  const texts = drifts.map(driftText).filter((text) => !told.has(text));
  for (const text of texts) told.add(text);
  return texts.length === 0 ? undefined : texts.join('; ');
}

function driftText({ table, column, kind, expected, found, reason }: Drift): string {
  const what = column === undefined ? `the table ${table}` : `the column ${table}.${column}`;
  switch (kind) {
    case 'missing':
      return `${what} was missing and is made again`;
    case 'retyped':
      return `${what} is ${found ?? 'another type'} instead of ${expected ?? 'its type'}: it gets the values that it holds exactly`;
    case 'held':
      return `${what} cannot become ${expected ?? 'another type'}: ${reason ?? ''}`;
    case 'foreign':
      return `${what} has a type that is not written: its values are in _unmapped`;
  }
}

/** An event for a warehouse, with the digits of its numbers. */
export interface SelectedEvent {
  readonly event: CanonicalEvent;
  /** In the log, as text. */
  readonly position: string;
  /** Of its row; undefined: that of the event. */
  readonly id?: string;
  /** Why it cannot be loaded. */
  readonly failure?: string;
}

interface SelectionDependencies {
  readonly catalog: Pick<Catalog, 'state'>;
  readonly transformer: Pick<Transformer, 'run' | 'release'>;
}

const NOTHING: readonly SelectedEvent[] = [];

/**
 * What a warehouse gets of an entry of `events.accepted`. Without rules it gets all events of its environments. Else the first
 * of its enabled rules that takes the event decides, and its transformation is applied: an event has one row, whichever rules
 * take it. Of a replay for one rule that rule decides, also while it is disabled.
 */
export async function selectEvents(
  dependencies: SelectionDependencies,
  destination: Destination,
  { replay }: Lane,
  entry: LogEntry,
): Promise<readonly SelectedEvent[]> {
  if (replay !== undefined && !takesHeaders(replay, entry)) return NOTHING;
  eventOf(entry);
  const exact = parseExact<CanonicalEvent>(entry.value);
  const event = mayHoldExactNumbers(entry.value) ? withDoubles(exact) : exact;
  if (replay !== undefined && !takesEvent(replay, event)) return NOTHING;
  if (closedTo(destination, event) !== undefined) return NOTHING;
  const whole = { event: exact, position: formatPosition(entry.position) };
  const { state } = dependencies.catalog;
  const rules = rulesOf(state, destination);
  if (rules.length === 0) return [whole];
  const asked = replay?.rule_id ?? undefined;
  const open = asked === undefined ? rules : rules.filter(({ id }) => id === asked);
  const budget = new FilterBudget(organizationOf(state, destination.workspace_id));
  const subject = subjectOfRules(event);
  for (const rule of open) {
    const mismatch = mismatchOf(asked === undefined ? rule : { ...rule, enabled: true }, subject, budget);
    if (mismatch === undefined)
      return rule.transformation_id === null
        ? [whole]
        : transformed(dependencies, rule, { ...whole, event }, entry);
    if (isUndecided(mismatch))
      return [{ ...whole, failure: `filter: ${mismatch.message ?? mismatch.because}` }];
  }
  return NOTHING;
}

async function transformed(
  { catalog, transformer }: SelectionDependencies,
  rule: Rule,
  { event, position }: SelectedEvent,
  entry: LogEntry,
): Promise<readonly SelectedEvent[]> {
  const failed = (failure: string) => [{ event: parseExact<CanonicalEvent>(entry.value), position, failure }];
  const { workspace_id, transformation_id } = rule;
  const transformation = catalog.state.entity('transformation', workspace_id, transformation_id ?? '');
  const refusal = refusalOf(transformation);
  if (transformation === undefined || refusal !== undefined) return failed(refusal ?? DELETED);
  const limits = { pendingEvent: { isDone: false }, share: shareOf(1) };
  const context = {
    workspace_id,
    rule_id: rule.id,
    rule_name: rule.name,
    environment: event.environment,
    contract: verdictIn(entry.headers) ?? { outcome: 'accepted', id: null, version: null },
  } as const;
  try {
    const input = transformationInput(entry.value, context, event);
    const outcome = await transformer.run(transformation, event, input, {}, limits);
    if (outcome === 'too slow') return failed('its transformation is too slow');
    if (!outcome.ok) return failed(`${outcome.kind}: ${outcome.message}`);
    return outcome.events.map((made, index) => ({
      event: made,
      position,
      ...(index > 0 && { id: deliveryId(rule.id, event, index) }),
    }));
  } finally {
    transformer.release(limits.pendingEvent);
  }
}
